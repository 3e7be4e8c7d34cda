#include "muster/models/device.h"

#include <utility>

namespace muster::models {
namespace {

thread_local c10::Device current{c10::DeviceType::CPU};

}  // namespace

ScopedDevice::ScopedDevice(c10::Device device) noexcept : before_(std::exchange(current, device)) {}

ScopedDevice::~ScopedDevice() { current = before_; }

c10::Device building_device() noexcept { return current; }

}  // namespace muster::models
