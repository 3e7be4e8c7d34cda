#include "muster/job/values.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace muster::job {
namespace {

using namespace std::chrono_literals;

TEST(Interval, ReadsEveryUnit) {
  EXPECT_EQ(*parse_interval("100 steps"), Interval::of_steps(100));
  EXPECT_EQ(*parse_interval("1 step"), Interval::of_steps(1));
  EXPECT_EQ(*parse_interval("0.5 epochs"), Interval::of_epochs(0.5));
  EXPECT_EQ(*parse_interval(" 25% "), Interval::of_fraction(0.25));
  EXPECT_EQ(*parse_interval("90s"), Interval::of_time(90s));
  EXPECT_EQ(*parse_interval("end"), Interval::end());
  EXPECT_EQ(*parse_interval("never"), Interval::never());
}

TEST(Interval, RefusesWhatIsNone) {
  for (const auto* text : {"", "100", "steps", "1.5 steps", "-1 epoch", "nan%", "inf steps",
                           "1e300 steps", "5 parsec", "end of it", "5 % of all", "010 steps",
                           "1e3 steps", "1E0 step", "05 epochs", "007%", "010s"}) {
    EXPECT_FALSE(parse_interval(text)) << text;
  }
}

TEST(Interval, CountsInSteps) {
  EXPECT_EQ(Interval::of_steps(7).steps(1000, 100), 7);
  EXPECT_EQ(Interval::of_epochs(0.5).steps(1000, 100), 50);
  EXPECT_EQ(Interval::of_fraction(0.05).steps(1000, 100), 50);
  EXPECT_EQ(Interval::of_fraction(0.0001).steps(1000, 100), 1) << "something is at least one step";
  EXPECT_EQ(Interval::of_fraction(0).steps(1000, 100), 0);
  EXPECT_EQ(Interval::end().steps(1000, 100), 1000);
  EXPECT_EQ(Interval::never().steps(1000, 100), 0);
}

TEST(Interval, IsReadBackAsPrinted) {
  EXPECT_TRUE(rc::check([](std::uint32_t number, std::int64_t nanoseconds) {
    const auto time = Duration(std::abs(nanoseconds % 1'000'000'000'000'000));
    for (const auto& interval : {Interval::of_steps(number), Interval::of_epochs(number / 4.0),
                                 Interval::of_fraction(number % 10001 / 100.0 / 100),
                                 Interval::of_fraction(number / 1e6 / 100), Interval::of_time(time),
                                 Interval::end(), Interval::never()}) {
      const auto read = parse_interval(to_string(interval));
      RC_ASSERT(read.has_value());
      RC_ASSERT(*read == interval);
    }
  }));
}

TEST(Interval, PrintsPercentAsTheyAreWritten) {
  for (int tenths = 0; tenths <= 1000; ++tenths) {
    const std::string text =
        tenths % 10 == 0 ? std::to_string(tenths / 10) + "%"
                         : std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + "%";
    EXPECT_EQ(to_string(*parse_interval(text)), text);
  }
}

TEST(Values, PrintInTheLargestUnitThatFits) {
  EXPECT_EQ(to_string(Duration(90s)), "90 s");
  EXPECT_EQ(to_string(Duration(2h)), "2 h");
  EXPECT_EQ(to_string(Duration(0s)), "0 s");
  EXPECT_EQ(to_string(Duration(1500us)), "1500 us");
  EXPECT_EQ(to_string(Duration(48h)), "48 h");
  EXPECT_EQ(to_string(Duration(7)), "7 ns");
  EXPECT_EQ(to_string(Duration(-90s)), "-90 s");
  EXPECT_EQ(to_string(Bytes{3 << 20}), "3 MiB");
  EXPECT_EQ(to_string(Bytes{1500}), "1500 B");
  EXPECT_EQ(to_string(Bytes{0}), "0 B");
  EXPECT_EQ(to_string(Bytes{std::uint64_t{3} << 50}), "3072 TiB");
}

}  // namespace
}  // namespace muster::job
