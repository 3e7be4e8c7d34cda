#pragma once
// How newcomers get the state while the others train on. Each rank that has it copies a part of it
// beside the training, as for a checkpoint, and sends that in pieces; a newcomer takes parts from
// all of them at once. Messages with tags of their own, so they pass by the collectives.

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/base/tensor_view.h"
#include "muster/checkpoint/snapshot.h"
#include "muster/comm/communicator.h"
#include "muster/parallel/strategy.h"

namespace muster::train {

// One rank's side of it: a giver's or a taker's. Works in a thread of its own; one thread calls.
class StateTransfer {
 public:
  // Begins. Ranks below `givers` have the state, the others take it. A giver's must not change
  // before wait_until_copied() has returned, nobody reads a taker's before done(). `op`: of a
  // piece.
  StateTransfer(std::shared_ptr<comm::Communicator> communicator, std::int32_t givers,
                parallel::Strategy& strategy, comm::OpOptions op, Clock& clock);
  ~StateTransfer();  // what is still under way ends, and the communicator with it
  StateTransfer(const StateTransfer&) = delete;
  StateTransfer& operator=(const StateTransfer&) = delete;

  bool gives() const noexcept { return me() < givers_; }
  std::int32_t givers() const noexcept { return givers_; }
  std::uint64_t bytes() const noexcept { return bytes_; }  // of the whole state

  Duration wait_until_copied();  // how long that took; helps

  // A taker has the state; a giver has sent its part, and rank 0 has heard of all takers that they
  // caught up. An error: what went wrong.
  Result<bool> done() const;
  // Until then, between two steps: while the state is sent as long as its pieces come, each of
  // which has the time of an operation, then for `patience`: kTimeout names a taker that did not
  // catch up.
  Status wait(Duration patience) const;

  // A taker's state is now that of the others.
  Status tell_caught_up();

 private:
  std::int32_t me() const noexcept { return to_int(communicator_->group().rank); }
  std::int32_t takers() const noexcept { return communicator_->group().size - givers_; }
  Status give();
  Status take();
  Status hear_of_takers();
  Status hear_all(std::uint32_t tag, Duration patience);
  void await(Rank taker);
  Status tell(std::uint32_t tag);

  const std::shared_ptr<comm::Communicator> communicator_;
  const std::int32_t givers_;
  const comm::OpOptions op_;
  Clock& clock_;
  std::vector<NamedTensor> pieces_;  // a giver's own, in its copy; a taker's all, in place
  std::uint64_t bytes_ = 0;
  checkpoint::SnapshotMemory memory_;
  std::optional<checkpoint::SnapshotCopy> copy_;  // a giver's

  mutable std::mutex mutex_;
  mutable std::condition_variable ended_;
  // Guarded by mutex_.
  bool taken_ = false;  // rank 0: all takers have the state
  Rank awaited_{0};     // and this one has yet to catch up
  std::optional<Status> outcome_;
  std::thread thread_;
};

}  // namespace muster::train
