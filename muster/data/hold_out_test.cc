#include "muster/data/hold_out.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "muster/testing/fake_source.h"

namespace muster::data {
namespace {

using ::testing::HasSubstr;

TEST(HoldOut, EverySampleIsInOnePart) {
  for (const std::int64_t size : {2, 3, 7, 100, 1001}) {
    const auto parts = hold_out(size, 0.25);
    ASSERT_TRUE(parts);
    EXPECT_EQ(std::ssize(parts->validation), std::llround(0.25 * static_cast<double>(size)));
    std::set<std::int64_t> all(parts->training.begin(), parts->training.end());
    all.insert(parts->validation.begin(), parts->validation.end());
    EXPECT_EQ(std::ssize(all), size);
    EXPECT_EQ(*all.begin(), 0);
    EXPECT_EQ(*all.rbegin(), size - 1);
    EXPECT_TRUE(std::ranges::is_sorted(parts->training));
    EXPECT_TRUE(std::ranges::is_sorted(parts->validation));
  }
}

// Data that is sorted by class would otherwise be measured on one class.
TEST(HoldOut, TakesFromEverywhere) {
  const auto parts = hold_out(1000, 0.1);
  ASSERT_TRUE(parts);
  for (int tenth = 0; tenth < 10; ++tenth)
    EXPECT_GT(std::ranges::count_if(parts->validation, [&](auto i) { return i / 100 == tenth; }),
              2);
}

// Runs of another version are compared with those of this one.
TEST(HoldOut, ChoosesTheSameForEver) {
  EXPECT_THAT(hold_out(20, 0.2)->validation, ::testing::ElementsAre(10, 11, 16, 18));
}

TEST(HoldOut, APartOfNothingIsRefused) {
  EXPECT_THAT(hold_out(3, 0.05).error().message,
              ::testing::AllOf(HasSubstr("5% of 3 samples"), HasSubstr("none for validation")));
  EXPECT_THAT(hold_out(3, 0.95).error().message, HasSubstr("none for training"));
  EXPECT_FALSE(hold_out(0, 0.5));
}

}  // namespace
}  // namespace muster::data
