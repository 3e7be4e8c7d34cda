#include "muster/app/join/orders.h"

#include <gtest/gtest.h>

namespace muster::app {
namespace {

TEST(Orders, ArriveAsTheyWere) {
  const Orders orders{.invitation = {{"10.0.0.5", 29400}, "key"},
                      .worker = 3,
                      .local_worker = 1,
                      .local_workers = 2,
                      .resumes = true,
                      .joins = false,
                      .needs_run_folder = true,
                      .environment = {{"A", "b\nc"}}};
  const std::string line = to_line(orders);
  EXPECT_EQ(line.find('\n'), line.size() - 1) << "one line";
  const auto read = read_orders(line);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(to_line(*read), line);
  EXPECT_EQ(read->environment.at("A"), "b\nc");
}

TEST(Orders, WhatIsNoneIsRefused) {
  for (const char* line : {"", "{}", "[1", "10.0.0.5:1 key",
                           R"({"join":"h:1","credentials":"","worker":0,"local_worker":2,)"
                           R"("local_workers":1,"resumes":false,"joins":false,)"
                           R"("needs_run_folder":false,"environment":{}})"}) {
    const auto orders = read_orders(line);
    ASSERT_FALSE(orders) << line;
    EXPECT_EQ(orders.error().code, ErrorCode::kInvalid);
  }
}

}  // namespace
}  // namespace muster::app
