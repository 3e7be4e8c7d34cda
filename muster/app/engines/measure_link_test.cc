#include "muster/app/engines/measure_link.h"

#include <gtest/gtest.h>

namespace muster::app {
namespace {

void expect_sane(const Result<comm::MeasuredLink>& link) {
  ASSERT_TRUE(link) << link.error().message;
  EXPECT_GT(link->costs.latency, 0);
  EXPECT_LT(link->costs.latency, 1);
  EXPECT_GT(link->per_message, 0);
  EXPECT_GT(link->costs.per_byte, 1e-13);
  EXPECT_LT(link->costs.per_byte, 1e-3);
}

TEST(MeasureLink, ThroughMemory) { expect_sane(measure_link(comm::Wire::kMemory)); }

TEST(MeasureLink, OverTheLoopbackInterface) { expect_sane(measure_link(comm::Wire::kTcp)); }

}  // namespace
}  // namespace muster::app
