#include "muster/data/batch_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::data {
namespace {

TEST(AdviceOnBatch, IsGivenWhereAStepAsksForMoreThanThereIs) {
  EXPECT_EQ(advice_on_batch(1000, 1000), "");
  EXPECT_EQ(advice_on_batch(1000, 32), "");
  EXPECT_EQ(advice_on_batch(1000, 1001),
            "training.global_batch_size is 1001, but there are only 1000 training samples: each "
            "step takes all of them, and is an epoch; set it to 1000 or less");
  EXPECT_THAT(advice_on_batch(1, 2), ::testing::HasSubstr("there is only 1 training sample: "));
}

}  // namespace
}  // namespace muster::data
