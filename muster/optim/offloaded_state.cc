#include "muster/optim/offloaded_state.h"

#include <ATen/ops/from_blob.h>

namespace muster::optim {
namespace {

std::span<const std::byte> bytes_of(const torch::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

}  // namespace

torch::Tensor OffloadedState::zeros_like(const torch::Tensor& parameter) {
  const auto nothing = [&] { return torch::empty({0}, parameter.options()); };
  if (!room_) return nothing();
  auto bytes = scratch_->take(parameter.nbytes());
  if (!bytes) {
    room_ = std::move(bytes).error();
    return nothing();
  }
  return at::from_blob(
      bytes->data(), parameter.sizes(), [kept = scratch_](void*) {}, parameter.options());
}

void OffloadedState::fetch(std::span<const torch::Tensor> state) noexcept {
  for (const torch::Tensor& tensor : state) scratch_->fetch(bytes_of(tensor));
}

void OffloadedState::release(std::span<const torch::Tensor> state) noexcept {
  for (const torch::Tensor& tensor : state) scratch_->release(bytes_of(tensor));
}

}  // namespace muster::optim
