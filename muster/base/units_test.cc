#include "muster/base/units.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

using namespace std::chrono_literals;

TEST(Units, ReadsDurations) {
  EXPECT_EQ(parse_duration("30s").value(), 30s);
  EXPECT_EQ(parse_duration("1.5 min").value(), 90s);
  EXPECT_EQ(parse_duration(" 200 ms ").value(), 200ms);
  EXPECT_EQ(parse_duration("2h").value(), 2h);
  EXPECT_EQ(parse_duration("1d").value(), 24h);
  EXPECT_EQ(parse_duration("850 µs").value(), 850us);
  for (const char* text : {"", "30", "s", "-1s", "inf s", "nan s", "1 week", "1e30 s", "0x10 s",
                           "1s2", "1,5 s", "010s", "00 s", "01.5 min"}) {
    EXPECT_FALSE(parse_duration(text)) << text;
  }
}

TEST(Units, ReadsSizes) {
  EXPECT_EQ(parse_bytes("64 MiB").value(), 64u << 20);
  EXPECT_EQ(parse_bytes("1GB").value(), 1000000000u);
  EXPECT_EQ(parse_bytes("512").value(), 512u);
  EXPECT_EQ(parse_bytes("0.5 KiB").value(), 512u);
  for (const char* text : {"", "-1", "1 mib", "20000000 TiB", "K", "010 MiB"}) {
    EXPECT_FALSE(parse_bytes(text)) << text;
  }
}

// Whoever suggests, describes or writes a unit takes it from here.
TEST(Units, EachIsReadForItsSizeAndTheUsualOnesAreTold) {
  const std::string durations = parse_duration("1 parsec").error().message;
  for (const QuantityUnit& unit : duration_units()) {
    EXPECT_EQ(parse_duration("3 " + std::string(unit.name)).value().count(), 3 * unit.size);
    const bool told = durations.find(" " + std::string(unit.name) + ",") != std::string::npos;
    EXPECT_EQ(told, unit.use != QuantityUnit::Use::kSynonym) << unit.name << ": " << durations;
  }
  const std::string sizes = parse_bytes("1 mib").error().message;
  for (const QuantityUnit& unit : size_units()) {
    EXPECT_EQ(parse_bytes("3" + std::string(unit.name)).value(),
              static_cast<std::uint64_t>(3 * unit.size));
    const bool told = sizes.find(" " + std::string(unit.name) + ",") != std::string::npos;
    EXPECT_EQ(told, unit.use != QuantityUnit::Use::kSynonym) << unit.name << ": " << sizes;
  }
}

TEST(Units, ReadsShares) {
  EXPECT_DOUBLE_EQ(parse_fraction("5%").value(), 0.05);
  EXPECT_DOUBLE_EQ(parse_fraction("0.05").value(), 0.05);
  EXPECT_FALSE(parse_fraction("five"));
  EXPECT_FALSE(parse_fraction("05%"));
  EXPECT_FALSE(parse_fraction("5 percent"));
}

TEST(Units, WritesForPeople) {
  EXPECT_EQ(format_duration(1200ms), "1.2 s");
  EXPECT_EQ(format_duration(200s), "3 min 20 s");
  EXPECT_EQ(format_duration(850us), "850 µs");
  EXPECT_EQ(format_duration(59970ms), "1 min");
  EXPECT_EQ(format_duration(0s), "0 ns");
  EXPECT_EQ(format_duration(25h), "1 d 1 h");
  EXPECT_EQ(format_duration(-2s), "-2.0 s");
  EXPECT_EQ(format_bytes(64u << 20), "64.0 MiB");
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes((1u << 20) - 1), "1.0 MiB");
  EXPECT_EQ(format_count(78000), "78.0 k");
  EXPECT_EQ(format_count(1250000), "1.25 M");
  EXPECT_EQ(format_count(999999), "1.00 M");
  EXPECT_EQ(counted(1, "step"), "1 step");
  EXPECT_EQ(counted(0, "step"), "0 steps");
  EXPECT_EQ(format_count(12), "12");
}

TEST(Units, FindsTheNearestWord) {
  constexpr std::string_view kKnown[] = {"learning_rate", "weight_decay", "seed"};
  EXPECT_EQ(nearest("learing_rate", kKnown), "learning_rate");
  EXPECT_EQ(nearest("sede", kKnown), "seed");
  EXPECT_EQ(nearest("batch", kKnown), "");
  EXPECT_EQ(nearest("", kKnown), "");
}

}  // namespace
}  // namespace muster
