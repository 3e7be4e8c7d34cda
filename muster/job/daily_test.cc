#include "muster/job/daily.h"

#include <gtest/gtest.h>

namespace muster::job {
namespace {

TEST(Daily, IsReadInAnyOrder) {
  EXPECT_EQ(parse_daily("20:00=8, 08:30=2").value(), (Daily{{510, 2}, {1200, 8}}));
  EXPECT_EQ(parse_daily("").value(), Daily{});
}

TEST(Daily, SaysWhatIsWrong) {
  for (const char* text : {"20=8", "24:00=8", "20:60=8", "20:00=0", "20:00=", "20:00", "8:00=1,",
                           "-1:00=2", "20:00=8 08:00=2"})
    EXPECT_FALSE(parse_daily(text)) << text;
  EXPECT_EQ(parse_daily("08:00=2,8:00=3").error().message, "08:00 stands there twice");
}

TEST(Daily, TheLastEntryLastsUntilTheFirstOfTheNextDay) {
  const Daily daily{{510, 2}, {1200, 8}};
  EXPECT_EQ(workers_at(daily, 0), 8);
  EXPECT_EQ(workers_at(daily, 509), 8);
  EXPECT_EQ(workers_at(daily, 510), 2);
  EXPECT_EQ(workers_at(daily, 1199), 2);
  EXPECT_EQ(workers_at(daily, 1200), 8);
  EXPECT_EQ(workers_at(daily, 1439), 8);
}

}  // namespace
}  // namespace muster::job
