#pragma once
// Ways to train one job, the best first, each with the reason for its place. Pure, thread-safe.

#include <string>
#include <vector>

#include "muster/plan/estimate.h"

namespace muster::plan {

struct Candidate {
  std::string name;
  Result<Way> way;        // or why the job does not allow it
  bool same_bits = true;  // as the job as it is written
  bool plain = false;     // needs no more of the job than it says; wins where it is nearly as fast
  bool last_resort = false;  // with other bits, where nothing that leaves them is possible
};

struct RankedWay {
  std::size_t candidate = 0;  // which one
  Result<Estimate> estimate;
  bool fits = false;   // in memory
  std::string reason;  // for a person: why it is best, or worse, or not possible

  bool possible() const noexcept { return estimate && fits; }
};

// First those that fit, by time; then those that do not, by memory; then those that cannot be.
// Where the profile was only counted, all are by memory.
// Among those with the same bits that are within kNearly of the fastest a plain one comes first.
inline constexpr double kNearly = 0.05;
std::vector<RankedWay> rank_ways(const ModelProfile& profile,
                                 const std::vector<Candidate>& candidates,
                                 const Hardware& hardware);

// The first possible one that leaves the bits as they are, or else the first last resort; null:
// there is none.
const RankedWay* best_of(const std::vector<RankedWay>& ranking,
                         const std::vector<Candidate>& candidates) noexcept;

}  // namespace muster::plan
