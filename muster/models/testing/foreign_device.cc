#include "muster/models/testing/foreign_device.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/transformers/attention.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <new>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace muster::models {
namespace {

constexpr c10::DeviceIndex kDevices = 32;

// Neither x86-64 nor AArch64 maps user memory at addresses with this bit.
constexpr std::uintptr_t kHidden = std::uintptr_t{1} << 55;
constexpr std::align_val_t kAlignment{64};

void* hide(void* host) {
  return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(host) | kHidden);
}
void* reveal(const void* foreign) {
  return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(foreign) & ~kHidden);
}
void release(void* foreign) { ::operator delete(reveal(foreign), kAlignment); }

class Memory final : public c10::Allocator {
 public:
  explicit Memory(c10::DeviceIndex index = 0) : device_(foreign_device(index)) {}
  c10::DataPtr allocate(std::size_t bytes) override {
    void* const at = bytes == 0 ? nullptr : hide(::operator new(bytes, kAlignment));
    return {at, at, at == nullptr ? nullptr : &release, device_};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(reveal(to), reveal(from), bytes);
  }

 private:
  const c10::Device device_;
};

Memory* memory(std::optional<at::Device> device) {
  static std::array<Memory, kDevices> memories = [] {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::array<Memory, kDevices>{Memory(static_cast<c10::DeviceIndex>(I))...};
    }
    (std::make_index_sequence<kDevices>());
  }();
  const c10::DeviceIndex index = device && device->has_index() ? device->index() : 0;
  return &memories.at(static_cast<std::size_t>(index));
}

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return kDevices; }
};

class Guard final : public c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::PrivateUse1> {
 public:
  c10::Device exchangeDevice(c10::Device) const override { return foreign_device(); }
  c10::Device getDevice() const override { return foreign_device(); }
  c10::Stream getStream(c10::Device device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }
};

// The same bytes for the processor; only the kernels below may.
at::Tensor on_host(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  return at::from_blob(reveal(tensor.unsafeGetTensorImpl()->data()), tensor.sizes(),
                       tensor.strides(), at::TensorOptions(tensor.scalar_type()));
}

at::Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> type,
                 std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(sizes, memory(device),
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   type.value_or(at::kFloat), format);
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides,
                         std::optional<at::ScalarType> type, std::optional<at::Layout>,
                         std::optional<at::Device> device, std::optional<bool>) {
  return at::detail::empty_strided_generic(sizes, strides, memory(device),
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           type.value_or(at::kFloat));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  if (to.numel() > 0) on_host(to).copy_(on_host(from));
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (to.sizes() != from.sizes()) to.set_(at::empty(from.sizes(), to.options()));
  return copy_from(from, to, false);
}

at::Tensor& set_source(at::Tensor& self, at::Storage storage, std::int64_t offset,
                       at::IntArrayRef sizes, at::IntArrayRef strides) {
  return at::native::set_storage_cpu_(self, std::move(storage), offset, sizes, strides);
}

using Lengths = at::IntArrayRef;

// What libtorch asks of backends by other names than of the processor.
template <class... Geometry>  // stride, padding, dilation, transposed, output padding, groups
at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias, Geometry... geometry) {
  const auto on_cpu = bias && bias->defined() ? std::optional(bias->cpu()) : std::nullopt;
  return at::convolution(input.cpu(), weight.cpu(), on_cpu, geometry...).to(input.device());
}

template <class... Geometry>  // the same, and which gradients are wanted
std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(const at::Tensor& gradient,
                                                                    const at::Tensor& input,
                                                                    const at::Tensor& weight,
                                                                    Geometry... geometry) {
  const bool of_a_bias = std::get<std::array<bool, 3>>(std::tuple(geometry...))[2];
  const auto [of_input, of_weight, of_bias] = at::convolution_backward(
      gradient.cpu(), input.cpu(), weight.cpu(),
      of_a_bias ? at::OptionalIntArrayRef(weight.sizes().slice(0, 1)) : std::nullopt, geometry...);
  const auto back = [&](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.to(input.device()) : tensor;
  };
  return {back(of_input), back(of_weight), back(of_bias)};
}

// Which kernel computes attention: that of the processor.
std::int64_t attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                       const std::optional<at::Tensor>& mask, double dropout, bool causal,
                       std::optional<double> scale, bool grouped) {
  const auto on_cpu = mask && mask->defined() ? std::optional(on_host(*mask)) : std::nullopt;
  return at::_fused_sdp_choice(on_host(query), on_host(key), on_host(value), on_cpu, dropout,
                               causal, scale, grouped);
}

// An operation of the processor on the same bytes, in the same order, so that it computes the same
// bits, and what it writes is written. Its results move to the device.
class OnProcessor {
 public:
  void run(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    each(*stack, op.schema().arguments().size(), [this](const at::Tensor& t) { return taken(t); });
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
    for (const auto& [host, foreign] : known_)
      if (host.sizes() != foreign.sizes()) at::_copy_from_and_resize(host, foreign);
    each(*stack, op.schema().returns().size(), [this](const at::Tensor& t) { return given(t); });
  }

 private:
  template <class Body>
  static void each(torch::jit::Stack& stack, std::size_t count, const Body& body) {
    for (auto value = stack.end() - static_cast<std::ptrdiff_t>(count); value != stack.end();
         ++value) {
      if (value->isTensor())
        *value = body(value->toTensor());
      else if (value->isTensorList())
        *value = of_list(value->toTensorList(), body);
      else if (value->isOptionalTensorList())
        *value = of_list(value->toOptionalTensorList(), [&](const std::optional<at::Tensor>& t) {
          return t ? std::optional(body(*t)) : t;
        });
      else if (value->isDevice())
        *value = c10::Device(c10::kCPU);
    }
  }
  template <class T, class Body>
  static c10::List<T> of_list(const c10::List<T>& list, const Body& body) {
    c10::List<T> made;
    for (const T& one : list) made.push_back(body(one));
    return made;
  }

  at::Tensor taken(const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.is_cpu()) return tensor;
    known_.emplace_back(tensor.numel() > 0 ? on_host(tensor) : room_for(tensor), tensor);
    return known_.back().first;
  }
  // What is empty may be meant to grow.
  static at::Tensor room_for(const at::Tensor& tensor) {
    return at::empty(tensor.sizes(), tensor.options().device(c10::kCPU));
  }
  // What was written in place is what was taken.
  at::Tensor given(const at::Tensor& tensor) const {
    for (const auto& [host, foreign] : known_)
      if (host.is_same(tensor)) return foreign;
    return tensor.defined() && !known_.empty() ? tensor.to(known_.front().second.device()) : tensor;
  }

  std::vector<std::pair<at::Tensor, at::Tensor>> known_;
};

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  OnProcessor().run(op, stack);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("convolution_overrideable",
         &convolution<Lengths, Lengths, Lengths, bool, Lengths, std::int64_t>);
  m.impl("convolution_backward_overrideable",
         &convolution_backward<Lengths, Lengths, Lengths, bool, Lengths, std::int64_t,
                               std::array<bool, 3>>);
  // What libtorch computes in another order where a device has no kernel of its own.
  for (const char* const kernel : {"native_layer_norm", "native_group_norm", "silu_backward"})
    m.impl(kernel, torch::CppFunction::makeFromBoxedFunction<&fallback>());
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("set_.source_Storage_storage_offset", &set_source);
  m.impl("set_.source_Tensor", TORCH_FN(at::native::set_tensor_));
}

// In 16 bits, where a pass asks for them, as on the processor.
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  KERNEL_PRIVATEUSEONE(linear, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(matmul, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(conv2d, lower_precision_fp)
}

// Before the first backward pass: then libtorch counts the devices.
const c10::impl::DeviceGuardImplRegistrar kGuard(c10::DeviceType::PrivateUse1, new Guard);
const bool kRegistered = [] {
  c10::register_privateuse1_backend("foreign");
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  c10::SetAllocator(c10::DeviceType::PrivateUse1, memory({}));
  at::native::_fused_sdp_choice_stub.set_privateuse1_dispatch_ptr(&attention);
  return true;
}();

}  // namespace

c10::Device foreign_device(c10::DeviceIndex index) { return {c10::DeviceType::PrivateUse1, index}; }

}  // namespace muster::models
