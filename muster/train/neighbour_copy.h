#pragma once
// What a rank has that nobody else has, in the memory of its neighbour: each keeps that of the rank
// before it, as of the last committed step. So the state outlives a death without a checkpoint, as
// in-memory checkpoints do (Gemini: Wang et al., SOSP 2023). It is sent in the background while the
// next step's forward and backward only read the state. One thread.

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/comm/communicator.h"
#include "muster/parallel/strategy.h"
#include "muster/train/course.h"

namespace muster::train {

// The rank that keeps what `rank` has.
constexpr Rank keeper_of(Rank rank, std::int32_t size) { return Rank{(to_int(rank) + 1) % size}; }

class NeighbourCopy {
 public:
  explicit NeighbourCopy(const Clock& clock) : clock_(clock) {}
  ~NeighbourCopy();  // what is under way ends, and the communicator with it

  // In a new generation, before anything else; collective. What is kept stays until begin().
  Status enter(std::shared_ptr<comm::Communicator> communicator, parallel::Strategy& strategy,
               const comm::OpOptions& op);

  // Begins to take the neighbour's state as it is at `step`, and to send this rank's, which must
  // not change before wait() has returned. All ranks call it; for the same step again it does
  // nothing.
  void begin(parallel::Strategy& strategy, Step step);
  // Until all is sent and taken, or has failed; how long that took.
  Duration wait();

  // The step whose state of the neighbour is here as a whole; none: there is no such.
  std::optional<Step> kept() const noexcept { return kept_; }

  // To the neighbour, who is there anew and takes it: what is kept, and what all hold.
  Status give(parallel::Strategy& strategy);
  static Status take(comm::Communicator& communicator, parallel::Strategy& strategy,
                     const comm::OpOptions& op);

 private:
  const Clock& clock_;
  std::shared_ptr<comm::Communicator> communicator_;
  comm::OpOptions op_;
  std::vector<std::vector<std::byte>> pieces_;  // the neighbour's
  std::vector<comm::Work> taking_, sending_;
  std::optional<Step> begun_;
  std::optional<Step> kept_;
};

}  // namespace muster::train
