#pragma once
// A copy of a strategy's whole state in memory, to go back to. One thread.

#include <cstddef>
#include <vector>

#include "muster/parallel/strategy.h"
#include "muster/train/progress.h"

namespace muster::train {

class StateCopy {
 public:
  // As they are now; takes over the memory of the copy before.
  void take(parallel::Strategy& strategy, const Progress& progress);
  bool exists() const noexcept { return exists_; }
  const Progress& progress() const noexcept { return progress_; }

  // Nobody may read the strategy's tensors meanwhile.
  void restore(parallel::Strategy& strategy) const;

 private:
  std::vector<std::vector<std::byte>> tensors_;
  Progress progress_;
  bool exists_ = false;
};

}  // namespace muster::train
