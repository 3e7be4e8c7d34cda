#pragma once
// Saves beside the training. start() hands over tensors that stay constant for a while – parameters
// and optimizer state are only read during forward and backward – and a thread copies them; before
// the next update the trainer calls wait_until_copied() and learns what that cost. Hashing and
// writing go on from the copy. One save at a time, so at most one more state in memory.

#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/checkpoint/checkpointer.h"

namespace muster::checkpoint {

// For one thread, the trainer's.
class AsyncSaver {
 public:
  // A thread that does this. Throws where there is none to be had, as std::thread does.
  using MakeThread = std::function<std::thread(std::function<void()>)>;
  static std::thread usual_thread(std::function<void()> work);

  // `clock` and the checkpointer's files and clock outlive every save.
  AsyncSaver(std::shared_ptr<Checkpointer> checkpointer, Clock& clock,
             MakeThread make_thread = usual_thread);
  ~AsyncSaver();  // lets a save under way end; call finish() first to learn how
  AsyncSaver(const AsyncSaver&) = delete;
  AsyncSaver& operator=(const AsyncSaver&) = delete;

  // Starts a save. Waits for an earlier one until `deadline`, then kTimeout; an earlier one's error
  // that nobody has collected is returned, and nothing is started: call again to save after all.
  // kUnavailable where there is no memory for the copy, or no thread: nothing is under way then.
  Status start(SaveRequest request, Deadline deadline);

  // Begins to look whether there is a whole checkpoint of that step, which another process may have
  // saved; found() says so. No save may be under way, and none begins before it has ended. An error
  // as from start().
  Status look_for(Step step);
  std::optional<bool> found() const;  // by the last look_for(); nothing: it has not ended

  // Returns when the tensors of start() may change again; helps to copy. The time it took.
  Duration wait_until_copied();

  // How the save has ended, once; nothing while it runs or when there was none.
  std::optional<Result<SavedCheckpoint>> poll();

  // Waits for the save or look_for() under way, until `deadline`, then kTimeout. Nothing when there
  // was none that poll() or finish() has not reported.
  Result<std::optional<SavedCheckpoint>> finish(Deadline deadline);

  bool busy() const;

  // Whatever is under way may never end: nobody waits for it any more, whatever it publishes.
  // Nothing can be saved afterwards.
  void abandon();

 private:
  struct State;
  std::shared_ptr<State> state_;  // the thread's as well
};

}  // namespace muster::checkpoint
