#include "muster/models/torch_error.h"

#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <stdexcept>

namespace muster::models {
namespace {

TEST(CatchTorch, GivesABodysOwnOutcome) {
  const auto three = catch_torch("here", [] { return Result<int>(3); });
  ASSERT_TRUE(three);
  EXPECT_EQ(*three, 3);
  const Error own = fail(ErrorCode::kTimeout, "its own");
  EXPECT_EQ(catch_torch("here", [&]() -> Status { return own; }).error(), own);
  const auto moved = catch_torch(
      "here", []() -> Result<std::unique_ptr<int>> { return std::make_unique<int>(3); });
  ASSERT_TRUE(moved);
  EXPECT_EQ(**moved, 3);
}

TEST(CatchTorch, GivesWhatABodyWithAnOutcomeThrows) {
  const auto broken =
      catch_torch("here", []() -> Result<int> { throw std::runtime_error("broken\nat line 3"); });
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error(), fail(ErrorCode::kInternal, "[here] broken"));
  const auto starved = catch_torch("here", []() -> Status { throw std::bad_alloc(); });
  ASSERT_FALSE(starved);
  EXPECT_EQ(starved.error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace muster::models
