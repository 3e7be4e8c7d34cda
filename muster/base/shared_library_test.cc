#include "muster/base/shared_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::HasSubstr;

TEST(SharedLibrary, FindsWhatIsThere) {
  const auto found = load_symbol("libm.so.6", "cos");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_DOUBLE_EQ(reinterpret_cast<double (*)(double)>(*found)(0), 1);
}

TEST(SharedLibrary, SaysWhatIsMissing) {
  const auto library = load_symbol("/nowhere/libnothing.so", "cos");
  ASSERT_FALSE(library);
  EXPECT_EQ(library.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(library.error().message, HasSubstr("/nowhere/libnothing.so"));
  EXPECT_THAT(library.error().message, HasSubstr("cannot open shared object file"));
  const auto symbol = load_symbol("libm.so.6", "no_such_function");
  ASSERT_FALSE(symbol);
  EXPECT_THAT(symbol.error().message, HasSubstr("no_such_function"));
}

}  // namespace
}  // namespace muster
