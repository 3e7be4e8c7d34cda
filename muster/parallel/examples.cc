#include "muster/parallel/examples.h"

#include <ATen/ATen.h>

#include <vector>

#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {

Examples examples_of(const data::SliceBatch& slice) {
  for (const NamedTensor& field : slice.fields) {
    if (field.name != "tokens") continue;
    const at::Tensor tokens = tensor_over(field.tensor).to(at::kLong);
    const std::int64_t positions = tokens.size(1) - 1;
    return {tokens.narrow(1, 0, positions), tokens.narrow(1, 1, positions)};
  }
  return {tensor_over(slice.field("image")), tensor_over(slice.field("label"))};
}

Examples concatenate(std::span<const Examples> parts) {
  if (parts.size() == 1) return parts.front();
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> targets;
  for (const Examples& part : parts) {
    inputs.push_back(part.inputs);
    targets.push_back(part.targets);
  }
  return {at::cat(inputs), at::cat(targets)};
}

Examples narrow(const Examples& examples, std::int64_t begin, std::int64_t end) {
  return {examples.inputs.narrow(0, begin, end - begin),
          examples.targets.narrow(0, begin, end - begin)};
}

}  // namespace muster::parallel
