#pragma once
// Who is slower than the others, why, and since when. One thread.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "muster/train/pace.h"

namespace muster::train {

struct Straggler {
  enum class Cause : std::uint8_t { kCompute, kInput, kLink };
  std::int32_t worker = 0;
  Cause cause = Cause::kCompute;
  double factor = 1;  // by which it is slower than the median of the others
  double its = 0;     // seconds a slice, of waiting for data a step, or for Pace::link
  double theirs = 0;
  std::int32_t from = -1;  // of a link: the worker at its other end
  friend bool operator==(const Straggler&, const Straggler&) = default;
};

// Those who are slower than the others by `factor` or more; at most one finding a worker.
std::vector<Straggler> find_stragglers(const std::vector<Pace>& paces, double factor);

// "computes 4.1 × slower than the others: 31 ms a slice, they 7.5 ms". `other_end`: who is at that
// of a link.
std::string describe(const Straggler& straggler, std::string_view other_end = {});

// Where slices are too few to be shared out as these paces want: "8 slices reach 76 % of what these
// workers can; 16 would reach 91 % (training.virtual_workers, a part of the result)". Empty where
// 90 % are reached, or no doubling up to `most` slices reaches more. `active`: as in
// share_by_pace().
std::string describe_few_slices(std::int32_t slices, const std::vector<Pace>& paces,
                                std::int32_t active, std::int64_t most);

// Tells a straggler from a passing disturbance: what counts is what two comparisons in a row find.
class StragglerWatch {
 public:
  StragglerWatch(double tell_factor, double evict_factor)
      : tell_factor_(tell_factor), evict_factor_(evict_factor) {}

  struct News {
    std::vector<Straggler> slow;          // not told yet, or for another cause
    std::vector<std::int32_t> recovered;  // workers told as slow that are so no longer
    std::vector<std::int32_t> to_go;      // workers that were too slow for too long; once, and
                                          // once more after others have come
  };
  News observe(const std::vector<Pace>& paces);

 private:
  struct Suspicion {
    Straggler::Cause cause = Straggler::Cause::kCompute;
    std::int32_t found = 0;     // comparisons in a row, for this cause
    std::int32_t missed = 0;    // since then
    std::int32_t too_slow = 0;  // comparisons in a row
    bool told = false;
  };
  const double tell_factor_;
  const double evict_factor_;                     // 0: never
  std::map<std::int32_t, Suspicion> suspicions_;  // by worker
  std::size_t workers_ = 0;                       // that were compared last
};

}  // namespace muster::train
