#include "muster/models/flop_rate.h"

#include <gtest/gtest.h>

namespace muster::models {
namespace {

// A millisecond passes from each look to the next.
class TickingClock final : public Clock {
 public:
  TimePoint now() const noexcept override { return now_ += std::chrono::milliseconds(1); }
  WallTime wall() const noexcept override { return {}; }
  bool wait_until(std::unique_lock<std::mutex>&, std::condition_variable&, TimePoint) override {
    return false;
  }

 private:
  mutable TimePoint now_;
};

TEST(FlopRate, CountsTwoForEachProductInAnyPrecision) {
  for (const Precision precision : {Precision::kF32, Precision::kBF16, Precision::kF16}) {
    const TickingClock clock;
    EXPECT_DOUBLE_EQ(measure_flop_rate(precision, c10::Device(c10::kCPU), clock),
                     2 * 512.0 * 512 * 512 / 1e-3);
  }
}

}  // namespace
}  // namespace muster::models
