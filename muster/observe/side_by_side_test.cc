#include "muster/observe/side_by_side.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/observe/table_text.h"

namespace muster::observe {
namespace {

using ::testing::HasSubstr;

Metrics row_of(std::vector<Metric> values) {
  Metrics row;
  row.values = std::move(values);
  return row;
}

TEST(SideBySide, HasTheResultsOfARunOrWhatItMeasuredLast) {
  ComparedRun ended;
  ended.run.ended.results = {{"eval/loss", 0.25}, {"mem/peak_rss_gib", 0.5}};
  ComparedRun going;
  going.run.rows = {row_of({{"train/loss", 4}}), row_of({{"eval/loss", 2}}),
                    row_of({{"train/loss", 3}})};
  const auto lines = final_metrics({ended, going});
  EXPECT_EQ(side_by_side_text("metric", {"a", "b"}, lines),
            "metric                    a  b\n"
            "eval/loss              0.25  2\n"
            "mem/peak_rss_gib  512.0 MiB  –\n"
            "train/loss                –  3\n");
}

TEST(SideBySide, IsEmptyWhereThereIsNothing) {
  EXPECT_EQ(side_by_side_text("job", {"a", "b"}, {}), "");
  EXPECT_EQ(side_by_side_card("Job", {"a", "b"}, {}), "");
  EXPECT_THAT(side_by_side_card("Job", {"a"}, {{"name", {"<b>"}}}), HasSubstr("&lt;b&gt;"));
}

TEST(TableText, CountsColumnsNotBytes) {
  EXPECT_EQ(aligned({{"模", "1"}, {"abc", "2"}}), "模   1\nabc  2\n");
  EXPECT_EQ(aligned({{"ö", "1"}, {"abc", "22"}}), "ö     1\nabc  22\n");
  EXPECT_EQ(aligned({{"a", "b"}, {"long", ""}}, 2), "a     b\nlong\n");
  EXPECT_EQ(aligned({}), "");
}

TEST(TableText, PutsWhatDoesNotFitIntoATableBelow) {
  const std::vector<std::vector<std::string>> lines = {{"", "loss", "rate", "time"},
                                                       {"data", "1.5", "20", "9"}};
  EXPECT_EQ(aligned(lines, 1, 22), aligned(lines));
  EXPECT_EQ(aligned(lines, 1, 21),
            "      loss  rate\n"
            "data   1.5    20\n"
            "\n"
            "      time\n"
            "data     9\n");
  EXPECT_EQ(aligned(lines, 1, 1), aligned(lines, 1, 10));  // one column at least
}

}  // namespace
}  // namespace muster::observe
