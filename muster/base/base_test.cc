#include <gtest/gtest.h>

#include <string>

#include "muster/base/check.h"
#include "muster/base/exit_code.h"
#include "muster/base/hash.h"
#include "muster/base/random.h"
#include "muster/base/result.h"
#include "muster/base/tensor_view.h"
#include "muster/testing/fake_clock.h"

namespace muster {
namespace {

std::string hex_of(std::string_view text) { return to_hex(sha256(std::as_bytes(std::span(text)))); }

// Random123's known answers.
TEST(Philox, GivesTheKnownAnswers) {
  using Block = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const std::uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox({ones, ones, ones, ones}, {ones, ones}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(RandomStream, DependsOnEveryPartOfItsName) {
  const RandomStream stream(1, "dropout", 2, 3);
  EXPECT_EQ(stream.bits(7), RandomStream(1, "dropout", 2, 3).bits(7));
  for (const RandomStream& other :
       {RandomStream(2, "dropout", 2, 3), RandomStream(1, "init", 2, 3),
        RandomStream(1, "dropout", 3, 3), RandomStream(1, "dropout", 2, 4), stream.fork("layer"),
        stream.fork(0), stream.fork(1)}) {
    EXPECT_NE(stream.block(7), other.block(7));
  }
}

TEST(RandomStream, StaysWithinItsRanges) {
  const RandomStream stream(5, "ranges");
  double sum = 0, squares = 0;
  constexpr int kCount = 20000;
  for (int i = 0; i < kCount; ++i) {
    ASSERT_LT(stream.below(i, 10), 10u);
    const float uniform = stream.uniform(i);
    ASSERT_TRUE(uniform >= 0 && uniform < 1);
    const double normal = stream.normal(i);
    sum += normal;
    squares += normal * normal;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.05);
  EXPECT_NEAR(squares / kCount, 1, 0.05);
}

TEST(Sha256, GivesTheKnownAnswers) {  // FIPS 180-4's examples
  EXPECT_EQ(hex_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, IsAsNewAfterFinish) {
  Sha256 hash;
  const std::string text = "abc";
  const auto bytes = std::as_bytes(std::span(text));
  hash.update(bytes.first(1));
  hash.update(bytes.subspan(1));
  const Digest first = hash.finish();
  hash.update(bytes);
  EXPECT_EQ(hash.finish(), first);
  EXPECT_EQ(first, sha256(bytes));
}

TEST(TensorView, DescribesElements) {
  std::vector<float> values{1, 2, 3};
  const TensorView view = view_of(std::span(values));
  EXPECT_EQ(view.count(), 3);
  EXPECT_EQ(view.bytes.size(), 12u);
  EXPECT_EQ(view.as<float>()[2], 3);
  EXPECT_EQ(describe(view), "F32 [3]");
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({4, 0, 2}), 0);
}

TEST(DType, KnowsItsNames) {
  for (const DType dtype : kAllDTypes) EXPECT_EQ(dtype_from_string(to_string(dtype)), dtype);
  EXPECT_EQ(dtype_from_string("f32"), std::nullopt);
}

Result<int> halve(int value) {
  if (value % 2 != 0) return fail(ErrorCode::kInvalid, "odd", Rank{3});
  return value / 2;
}

Result<int> quarter(int value) {
  MUSTER_ASSIGN(const int half, halve(value));
  MUSTER_ASSIGN(const int result, halve(half));
  return result;
}

Status check_even(int value) {
  MUSTER_TRY(halve(value));
  return ok();
}

TEST(Result, PassesValuesAndErrorsOn) {
  EXPECT_EQ(quarter(8).value(), 2);
  ASSERT_FALSE(quarter(6));
  EXPECT_EQ(quarter(6).error(), (Error{ErrorCode::kInvalid, "odd", Rank{3}}));
  EXPECT_TRUE(check_even(2));
  EXPECT_EQ(check_even(3).error().peer, Rank{3});
}

TEST(Result, KeepsCodeAndCulpritInContext) {
  const Error error = with_context(halve(3).error(), "step 7");
  EXPECT_EQ(error.message, "step 7: odd");
  EXPECT_EQ(error.peer, Rank{3});
  EXPECT_EQ(exit_code(error.code), ExitCode::kUsage);
}

TEST(Check, NamesThePlace) {
  try {
    MUSTER_CHECK(1 == 2, "as ever");
    FAIL();
  } catch (const LogicFault& fault) {
    EXPECT_NE(std::string(fault.what()).find("base_test.cc"), std::string::npos);
    EXPECT_NE(std::string(fault.what()).find("1 == 2: as ever"), std::string::npos);
  }
}

TEST(Clock, DeadlinesFollowTheClockTheyAreGiven) {
  testing::FakeClock clock;
  const Deadline deadline = Deadline::after(clock, std::chrono::seconds(2));
  EXPECT_FALSE(deadline.passed(clock));
  clock.advance(std::chrono::seconds(2));
  EXPECT_TRUE(deadline.passed(clock));
  EXPECT_EQ(format_utc(clock.wall()), "2026-01-01T00:00:02Z");
  EXPECT_EQ(format_utc(clock.wall(), true), "20260101T000002Z");
}

}  // namespace
}  // namespace muster
