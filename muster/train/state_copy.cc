#include "muster/train/state_copy.h"

#include <algorithm>

namespace muster::train {
namespace {

std::vector<TensorView> tensors_of(parallel::Strategy& strategy) {
  std::vector<TensorView> tensors;
  for (const parallel::StateSlice& slice : state_here(strategy)) tensors.push_back(slice.tensor);
  return tensors;
}

}  // namespace

void StateCopy::take(parallel::Strategy& strategy, const Progress& progress) {
  const std::vector<TensorView> tensors = tensors_of(strategy);
  tensors_.resize(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i)
    tensors_[i].assign(tensors[i].bytes.begin(), tensors[i].bytes.end());
  progress_ = progress;
  exists_ = true;
}

void StateCopy::restore(parallel::Strategy& strategy) const {
  const std::vector<TensorView> tensors = tensors_of(strategy);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    std::ranges::copy(tensors_[i], tensors[i].bytes.begin());
  strategy.loaded(progress_.optimizer_steps);
}

}  // namespace muster::train
