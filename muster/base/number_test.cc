#include "muster/base/number.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace muster {
namespace {

TEST(NumberFrom, TakesTextThatIsOne) {
  EXPECT_EQ(number_from<int>("-12"), -12);
  EXPECT_EQ(number_from<std::uint16_t>("65535"), 65535);
  EXPECT_EQ(number_from<double>("1.5e3"), 1500.0);
  const auto infinite = number_from<double>("inf");
  EXPECT_TRUE(infinite && std::isinf(*infinite));
}

TEST(NumberFrom, TakesNothingElse) {
  for (const char* text : {"", "+1", " 1", "1 ", "1x", "x", "1.0", "0x10", "-"})
    EXPECT_FALSE(number_from<int>(text)) << text;
  EXPECT_FALSE(number_from<int>({}));
  EXPECT_FALSE(number_from<std::uint16_t>("65536"));
  EXPECT_FALSE(number_from<std::uint16_t>("-1"));
  EXPECT_FALSE(number_from<double>("1e400"));
}

}  // namespace
}  // namespace muster
