#include "muster/cluster/line_collector.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace muster::cluster {
namespace {

std::vector<std::string> lines_of(const std::vector<std::string>& pieces) {
  std::vector<std::string> lines;
  LineCollector collector([&](std::string_view line) { lines.emplace_back(line); });
  for (const auto& piece : pieces) collector.add(piece);
  collector.end();
  return lines;
}

TEST(LineCollector, JoinsPiecesToWholeLines) {
  EXPECT_EQ(lines_of({"one\ntw", "o", "\n", "\nfour"}),
            (std::vector<std::string>{"one", "two", "", "four"}));
  EXPECT_EQ(lines_of({"dos\r\n"}), std::vector<std::string>{"dos"});
  EXPECT_TRUE(lines_of({""}).empty());
}

TEST(LineCollector, BreaksEndlessLines) {
  const auto lines = lines_of({std::string(3 * kLongestLine + 5, 'x')});
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[3], "xxxxx");
}

RC_GTEST_PROP(LineCollector, DoesNotDependOnThePieces, (const std::vector<std::string>& pieces)) {
  std::string whole;
  for (const auto& piece : pieces) whole += piece;
  RC_ASSERT(lines_of(pieces) == lines_of({whole}));
}

TEST(LastLines, KeepsTwenty) {
  LastLines last;
  for (int i = 0; i < 50; ++i) last.add(std::to_string(i));
  EXPECT_EQ(last.take().size(), kLastLines);
  EXPECT_EQ(last.take().front(), "30");
  EXPECT_EQ(last.take().back(), "49");
}

}  // namespace
}  // namespace muster::cluster
