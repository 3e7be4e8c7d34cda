#pragma once
// Where the slices of a step meet in the middle of their passes (models/batch_group.h): each brings
// some numbers and leaves with the sum over those of all ranks. All slices of a rank are on their
// way at once, each on a thread of its own, of which as many compute at a time as the rank has
// lanes; the others wait for their turn or for a sum. The last slice of a rank to come adds up what
// the rank's have brought and meets the other ranks.
//
// Ordered: added along the fixed tree of slices (comm/sum_tree.h), so the bits depend on neither
// ranks nor lanes. Fast: those of a rank by themselves, as the rank has cut them, then the ranks'.
//
// Nobody waits without an end. For another rank: until the operation's deadline, or the end of the
// generation. For a slice of this rank: it comes, ends, or is given up (give_up()), and each of the
// latter two ends the meeting with an error for all; then the step has failed as with any
// collective operation. Threads: as said at each.

#include <ATen/core/Tensor.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/comm/communicator.h"
#include "muster/models/batch_group.h"

namespace muster::parallel {

struct MeetingOptions {
  bool ordered = true;
  std::int32_t lanes = 1;
  comm::OpOptions op = {};
};

class SliceMeeting {
 public:
  // Of one generation, in which rank owners[i] computes slice i. Collective: those that compute any
  // get a communicator of their own, so that gradients on their way hold up no meeting. Null where
  // this rank computes none.
  static Result<std::unique_ptr<SliceMeeting>> create(comm::Communicator& communicator,
                                                      const comm::LeafOwners& owners,
                                                      const MeetingOptions& options, Clock& clock);

  // A step, of which so many units are computed here: in ordered mode all slices of this rank.
  // `timeout`: for other ranks at each meeting; none: as the options have it. While no unit runs.
  void begin(std::int32_t units, std::optional<Duration> timeout);

  // A unit's way through the step, on its thread: it waits for its first turn, and its end gives
  // the last one back. `unit`: in ordered mode the slice, else from 0 on.
  class Seat final : public models::BatchGroup {
   public:
    Seat(SliceMeeting& meeting, std::int32_t unit);
    ~Seat() override;
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;
    at::Tensor sum(const at::Tensor& addend, std::string_view what) const override;
    // It comes to no further meeting, for it has been to all. Who leaves otherwise has failed, and
    // is given up (give_up()) with what it failed of.
    void over() { meeting_.be_over(); }

   private:
    SliceMeeting& meeting_;
    const std::int32_t unit_;
  };

  // Some unit will not come any more: ends the step's meetings. Any thread.
  void give_up(const Error& why);
  // What ended the meetings, of which libtorch passes on no more than the text; `error` where
  // nothing did. Once no unit runs, as the next.
  Error cause_of(const Error& error) const;
  // How long all units here have waited for other ranks in this step.
  Duration waited() const { return waited_; }
  // Handed to the communicator in this step.
  std::uint64_t bytes() const { return bytes_; }

 private:
  SliceMeeting(std::shared_ptr<comm::Communicator> ranks, const comm::LeafOwners& owners,
               const MeetingOptions& options, Clock& clock);

  at::Tensor meet(std::int32_t unit, const at::Tensor& addend, std::string_view what);
  void complete(std::unique_lock<std::mutex>& lock, std::string_view what);
  Result<at::Tensor> add_up(std::string_view what);
  at::Tensor sum_of(comm::LeafRange units) const;
  Status sum_over_ranks(const at::Tensor& rows, std::string_view what);
  void take_turn(std::unique_lock<std::mutex>& lock);
  void leave_turn();
  void end(Error why);
  void be_over();

  const std::shared_ptr<comm::Communicator> ranks_;  // null: no other rank computes slices
  const std::shared_ptr<const comm::SumTree> tree_;  // in fast mode of ranks
  const MeetingOptions options_;
  Clock& clock_;

  std::mutex mutex_;
  std::condition_variable met_, turns_;
  // All guarded by mutex_; addends_ also read, waited_ and bytes_ written by the last to come
  // alone.
  std::int32_t units_ = 0;  // of this step here
  Duration timeout_{};
  std::vector<at::Tensor> addends_;  // by unit; defined: it has come
  std::int32_t arrived_ = 0;
  std::int32_t gone_ = 0;     // units whose passes are over
  std::int32_t running_ = 0;  // that have a turn
  std::uint64_t meetings_ = 0;
  at::Tensor total_;  // of the last meeting; every unit takes it before it comes to the next
  std::optional<Error> failure_;
  Duration waited_{};
  std::uint64_t bytes_ = 0;
};

}  // namespace muster::parallel
