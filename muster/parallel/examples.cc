#include "muster/parallel/examples.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {
namespace {

const TensorView& either(const data::SliceBatch& slice, std::string_view one,
                         std::string_view other) {
  const bool first = std::ranges::find(slice.fields, one, &NamedTensor::name) != slice.fields.end();
  return slice.field(first ? one : other);
}

}  // namespace

Examples examples_of(const data::SliceBatch& slice) {
  for (const NamedTensor& field : slice.fields) {
    if (field.name != "tokens") continue;
    const at::Tensor tokens = tensor_over(field.tensor).to(at::kLong);
    const std::int64_t positions = tokens.size(1) - 1;
    return {tokens.narrow(1, 0, positions), tokens.narrow(1, 1, positions)};
  }
  return {tensor_over(either(slice, "image", "input")),
          tensor_over(either(slice, "label", "target"))};
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
