#include "muster/models/memory_meter.h"

#include <c10/core/Allocator.h>

#include <atomic>

namespace muster::models {

class MemoryMeter::Reports final : public c10::MemoryReportingInfoBase {
 public:
  // `size` is negative where memory is freed.
  void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t, c10::Device) override {
    const std::int64_t now = held_ += size;
    std::int64_t most = peak_;
    while (now > most && !peak_.compare_exchange_weak(most, now)) {
    }
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::int64_t held() const noexcept { return held_; }
  std::int64_t peak() const noexcept { return peak_; }

 private:
  // Backward on a device runs in a thread of its own, which inherits the meter.
  std::atomic<std::int64_t> held_ = 0;
  std::atomic<std::int64_t> peak_ = 0;
};

MemoryMeter::MemoryMeter()
    : reports_(std::make_shared<Reports>()),
      installed_(c10::DebugInfoKind::PROFILER_STATE, reports_) {}

std::int64_t MemoryMeter::held() const noexcept { return reports_->held(); }
std::int64_t MemoryMeter::peak() const noexcept { return reports_->peak(); }

}  // namespace muster::models
