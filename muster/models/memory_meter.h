#pragma once
// How much memory libtorch's tensors take, as its allocators tell it, on any device. Counts what
// the thread that made it allocates and frees while it lives; one at a time in a thread, and none
// beside libtorch's profiler.

#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <memory>

namespace muster::models {

class MemoryMeter {
 public:
  MemoryMeter();

  // In bytes, beyond what there was at the beginning: now, and the most at any moment.
  std::int64_t held() const noexcept;
  std::int64_t peak() const noexcept;

 private:
  class Reports;
  std::shared_ptr<Reports> reports_;
  c10::DebugInfoGuard installed_;
};

}  // namespace muster::models
