#pragma once
// Where the tensors of a model lie. Models are built on the device of the scope in which they are
// made, and take inputs and targets from anywhere.

#include <c10/core/Device.h>

namespace muster::models {

// Blocks that this thread makes while it lives have their tensors there. Scopes nest.
class ScopedDevice {
 public:
  explicit ScopedDevice(c10::Device device) noexcept;
  ~ScopedDevice();
  ScopedDevice(const ScopedDevice&) = delete;
  ScopedDevice& operator=(const ScopedDevice&) = delete;

 private:
  const c10::Device before_;
};

// Of the innermost scope; the processor outside of all.
c10::Device building_device() noexcept;

}  // namespace muster::models
