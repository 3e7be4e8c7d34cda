#pragma once
// How fast each worker is, as all ranks know it, and how many slices each gets. Plain data and pure
// functions; PaceMeter measures on one thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/comm/communicator.h"

namespace muster::train {

// Of one worker over some steps, in seconds: medians, so that a hiccup does not count.
struct Pace {
  std::int32_t worker = 0;  // a number that it keeps for life
  std::int32_t lanes = 1;
  double slice = 0;          // in which one of its lanes computes a slice; 0: not known
  double input = 0;          // that a step waits for its data
  double waiting = 0;        // that a step waits for the other workers
  double step = 0;           // that a whole step takes
  double link = 0;           // in which kLinkBytes come from the rank before; 0: not known
  bool stop = false;         // it was asked to stop: one without slices has no flags in the sum
  std::int32_t backups = 0;  // its slices that others computed in these steps

  static constexpr std::size_t kWords = 9;
  std::array<double, kWords> pack() const noexcept;  // for the wire
  static Pace unpack(const double* words) noexcept;
  friend bool operator==(const Pace&, const Pace&) = default;
};

inline constexpr std::size_t kLinkBytes = std::size_t{64} << 10;

class PaceMeter {
 public:
  struct Step {
    std::int32_t slices = 0;   // of this worker,
    std::int32_t backups = 0;  // and of those, what others computed
    Duration computing{};
    Duration input{};
    Duration waiting{};
    Duration whole{};
  };
  void add(const Step& step);
  Pace take(std::int32_t worker, std::int32_t lanes);  // of what was added since the last call

 private:
  std::deque<Step> steps_;  // the latest
};

// Whether all of them wait: not for one that computes slowly, which would not wait itself.
bool links_matter(const std::vector<Pace>& paces);

// Pace::link: each rank sends to the next one, and all begin together. The best of a few tries, so
// that a rank that is just not scheduled does not count. Collective.
Result<double> measure_link(comm::Communicator& communicator, Clock& clock,
                            const comm::OpOptions& options);

// By rank. Collective.
Result<std::vector<Pace>> exchange_paces(comm::Communicator& communicator, const Pace& mine,
                                         const comm::OpOptions& options);

// What is known after `now` was measured. Of a worker that had no slices the old figure stands, a
// little better each time: so it gets a slice to show what it can do, seldom enough to cost little.
std::vector<Pace> with_memory(std::vector<Pace> now, const std::vector<Pace>& before);

// Equal for equal paces.
std::uint64_t fingerprint(const std::vector<Pace>& paces);

// Slices by rank with which all are done soonest; those whose speed is not known count as the
// median of the others. Ranks from `active` on are standbys and get none; rank 0, which speaks for
// all, gets one at least.
std::vector<std::int32_t> share_by_pace(std::int32_t slices, const std::vector<Pace>& paces,
                                        std::int32_t active);

// Until the last of them has computed its slices.
double computing_seconds(const std::vector<std::int32_t>& counts, const std::vector<Pace>& paces);

// What part of the sum of the workers' speeds these slices by rank reach: 1 where all are done at
// the same time. Speeds and ranks count as in share_by_pace().
double share_reached(const std::vector<std::int32_t>& counts, const std::vector<Pace>& paces,
                     std::int32_t active);

}  // namespace muster::train
