#pragma once
// Loop: one thread that runs tasks, timers and I/O one after another. Everything in net and cluster
// that has state lives on such a thread and needs no lock. The simulator has a Loop of its own,
// without threads; nothing above net knows which one it is on.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/log.h"
#include "muster/base/result.h"

namespace muster::net {

// A timer or a watch. Dropping it cancels it: on the loop's thread at once; from another thread a
// callback that is just running finishes beside the caller.
using Registration = std::shared_ptr<void>;

class Loop {  // thread-safe
 public:
  virtual ~Loop() = default;

  // Runs `task` on the loop's thread, in the order of posting. After stop() it is dropped.
  // A task must neither block nor throw; what it throws is logged and dropped.
  virtual void post(std::function<void()> task) = 0;

  // Runs `task` once at `at`, unless the registration is dropped first.
  [[nodiscard]] virtual Registration call_at(TimePoint at, std::function<void()> task) = 0;

  virtual bool on_loop_thread() const noexcept = 0;
  virtual Clock& clock() const noexcept = 0;

  // Ends the thread after the task that is running; tasks that wait are dropped. Idempotent.
  // Not from the loop's own thread, which cannot wait for itself.
  virtual void stop() = 0;
};

// Where it ends a scope: nothing may call what is being destroyed.
struct StopAtEnd {
  Loop& loop;
  ~StopAtEnd() { loop.stop(); }
};

// A Loop of the operating system: it also watches file descriptors (pipes, pidfds) and signals.
class SystemLoop : public Loop {
 public:
  // Runs `readable` each time `fd` has something to read or has ended, until dropped. `fd` stays
  // the caller's; the callback reads from it (read_available) or drops the registration.
  [[nodiscard]] virtual Registration watch(int fd, std::function<void()> readable) = 0;

  // Runs `arrived` for each of these signals the process gets, until dropped. SIGHUP stays ignored
  // where whoever started the process has it so (nohup).
  [[nodiscard]] virtual Registration on_signals(const std::vector<int>& numbers,
                                                std::function<void(int)> arrived) = 0;
};

// A loop with a thread of its own (Asio). The destructor stops it. `name`: of the thread.
std::unique_ptr<SystemLoop> create_loop(std::string name, Logger log,
                                        Clock& clock = system_clock());

// Reads what a descriptor has now, up to `limit` bytes; never waits.
// Empty string: nothing now. kNotFound: the other end has closed.
Result<std::string> read_available(int fd, std::size_t limit = 64 * 1024);

// Runs `task` on the loop's thread and waits for it; directly when already there. For rare,
// short questions from outside, as in shutting down. False: the loop did not run it in time.
bool run_and_wait(Loop& loop, std::function<void()> task, Deadline deadline);

}  // namespace muster::net
