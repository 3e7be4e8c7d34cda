#include "muster/models/block.h"

#include <algorithm>

#include "muster/base/check.h"
#include "muster/models/adapter.h"
#include "muster/models/device.h"

namespace muster::models {
namespace {

torch::TensorOptions floats() {
  return torch::TensorOptions(torch::kFloat32).device(building_device());
}

}  // namespace

torch::Tensor Block::add_parameter(BlockParameter parameter, torch::IntArrayRef shape) {
  if (!parameter.tensor.defined())
    parameter.tensor = torch::empty(shape, floats()).set_requires_grad(true);
  parameters_.push_back(std::move(parameter));
  return parameters_.back().tensor;
}

torch::Tensor Block::borrow(const NamedBlock& owner, const std::string& parameter) {
  auto& theirs = owner.block->parameters_;
  const auto found = std::ranges::find(theirs, parameter, &BlockParameter::name);
  MUSTER_CHECK(found != theirs.end(), owner.name + " has no parameter " + parameter);
  found->products_only = false;  // this block may use it otherwise
  borrowed_.push_back(*found);
  borrowed_.back().owner = owner.name;
  return found->tensor;
}

torch::Tensor Block::add_statistic(std::string name, std::int64_t channels, double value,
                                   Split split) {
  statistics_.push_back({std::move(name), torch::full({channels}, value, floats()), split});
  return statistics_.back().tensor;
}

std::shared_ptr<Adapter> Block::add_layer(std::string name) {
  layers_.push_back({std::move(name), std::make_shared<Adapter>()});
  return layers_.back().adapter;
}

}  // namespace muster::models
