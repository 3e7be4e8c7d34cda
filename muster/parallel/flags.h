#pragma once
// What ranks tell each other with every step, for nothing: a few counters that ride in the first
// bucket, so that all ranks take the same decision at the same step.

#include <array>
#include <cstddef>

namespace muster::parallel {

enum class Flag : std::size_t {
  kStop,        // a signal asked for a checkpoint and the end
  kCheckpoint,  // a checkpoint is due by the clock
  kEvaluate,    // an evaluation is due by the clock
  kRegroup,     // the next generation is planned
  kCompare,     // paces are to be compared, by the clock
  kCaughtUp,    // all newcomers have the state
  kCount,
};

class Flags {
 public:
  void set(Flag flag) noexcept { counts_[index(flag)] = 1; }
  void clear(Flag flag) noexcept { counts_[index(flag)] = 0; }
  bool has(Flag flag) const noexcept { return counts_[index(flag)] > 0; }
  float* data() noexcept { return counts_.data(); }
  const float* data() const noexcept { return counts_.data(); }
  static constexpr std::size_t size() noexcept { return index(Flag::kCount); }

 private:
  static constexpr std::size_t index(Flag flag) noexcept { return static_cast<std::size_t>(flag); }
  std::array<float, static_cast<std::size_t>(Flag::kCount)> counts_{};  // ranks that set it
};

}  // namespace muster::parallel
