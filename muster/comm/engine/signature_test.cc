#include "muster/comm/engine/signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "muster/comm/engine/calls.h"

namespace muster::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TensorView of(DType dtype, Shape shape) { return {dtype, std::move(shape), {}}; }
Signature sign(const Op& op, std::string label = "") {
  OpOptions options;
  options.label = std::move(label);
  return signature_of(op, options);
}

TEST(Signature, DiffersWhereTheCallDoes) {
  const auto tree = std::make_shared<SumTree>(8, 3);
  const auto uneven = std::make_shared<SumTree>(owners_by_count({4, 2, 2}), 3);
  const auto shards = std::make_shared<const Shards>(Shards{{0, 2, 4, 6}});
  const auto others = std::make_shared<const Shards>(Shards{{0, 1, 4, 6}});
  const TensorView six = of(DType::kF32, {6});
  const Op calls[] = {
      Barrier{},
      AllReduce{six},
      AllReduce{of(DType::kF64, {6})},
      AllReduce{of(DType::kF32, {7})},
      AllReduce{of(DType::kF32, {2, 3})},
      AllReduce{of(DType::kF32, {3, 2})},
      AllReduce{of(DType::kF32, {1, 1, 1, 1, 1, 1, 1, 6})},
      AllReduce{of(DType::kF32, {1, 1, 1, 1, 1, 1, 1, 7})},
      AllReduce{six, Reduce::kMax},
      AllReduce{of(DType::kF32, {1, 6}), Reduce::kSum, tree},
      AllReduce{of(DType::kF32, {1, 6}), Reduce::kSum, uneven},
      ReduceScatter{of(DType::kF32, {2}), six},
      ReduceScatter{of(DType::kF32, {2}), of(DType::kF32, {1, 6}), Reduce::kSum, shards},
      ReduceScatter{of(DType::kF32, {2}), of(DType::kF32, {1, 6}), Reduce::kSum, others},
      ReduceScatter{of(DType::kF32, {2}), of(DType::kF32, {1, 6}), Reduce::kSum, shards, tree},
      AllGather{of(DType::kF32, {18}), six},
      AllGather{six, of(DType::kF32, {2}), shards},
      AllGather{six, of(DType::kF32, {2}), others},
      Broadcast{six},
      Broadcast{six, Rank{1}},
      AllToAll{six, six}};
  std::set<std::uint64_t> seen;
  for (const Op& op : calls)
    for (const char* label : {"", "gradients/0", "gradients/1"})
      EXPECT_TRUE(seen.insert(sign(op, label).check).second) << describe(sign(op, label));
}

Signature wishing(Algorithm algorithm, Algorithm inner = Algorithm::kAuto,
                  Algorithm outer = Algorithm::kAuto) {
  OpOptions options;
  options.algorithm = algorithm;
  options.inner = inner;
  options.outer = outer;
  return signature_of(AllReduce{of(DType::kF32, {6})}, options);
}

// Ranks that play different schedules mix up their data.
TEST(Signature, DiffersWhereAnotherScheduleIsWished) {
  using enum Algorithm;
  const Signature wishes[] = {wishing(kAuto), wishing(kRing), wishing(kHierarchical),
                              wishing(kHierarchical, kRing), wishing(kHierarchical, kAuto, kRing)};
  const char* const texts[] = {"", " by ring", " by hierarchical", " by hierarchical/ring/auto",
                               " by hierarchical/auto/ring"};
  std::set<std::uint64_t> seen;
  for (std::size_t i = 0; i < std::size(wishes); ++i) {
    EXPECT_EQ(describe(wishes[i]), std::string("all_reduce sum F32 [6]") + texts[i]);
    EXPECT_TRUE(seen.insert(wishes[i].check).second) << texts[i];
  }
}

TEST(Signature, IsTheSameWhereOnlyTheRowsDiffer) {
  const auto tree = std::make_shared<SumTree>(8, 3);
  EXPECT_EQ(sign(AllReduce{of(DType::kF32, {1, 6}), Reduce::kSum, tree}).check,
            sign(AllReduce{of(DType::kF32, {2, 6}), Reduce::kSum, tree}).check);
}

TEST(Signature, SaysWhatIsCalled) {
  EXPECT_EQ(describe(sign(AllReduce{of(DType::kF32, {2, 3})}, "gradients/3")),
            "all_reduce sum F32 [2, 3] (gradients/3)");
  EXPECT_EQ(describe(sign(Broadcast{of(DType::kI64, {}), Rank{2}})),
            "broadcast I64 [] from rank 2");
  EXPECT_EQ(describe(sign(Barrier{}, std::string(200, 'x'))),
            "barrier (" + std::string(52, 'x') + ")");
  Signature noise;
  std::fill_n(reinterpret_cast<std::byte*>(&noise), sizeof(noise), std::byte{0xEE});
  EXPECT_EQ(describe(noise), "nothing known");
  noise.op = 0;
  EXPECT_THAT(describe(noise), HasSubstr("all_reduce ?"));
}

TEST(CompareCalls, NamesWhoDiffersFromMost) {
  const Group group{Rank{1}, 4, Generation{3}};
  const Signature usual = sign(Barrier{});
  const Signature odd = sign(Broadcast{of(DType::kU8, {5})});
  EXPECT_TRUE(compare_calls(group, 9, {usual, usual, usual, usual}));
  for (std::size_t at = 0; at < 4; ++at) {
    std::vector<Signature> calls(4, usual);
    calls[at] = odd;
    const Status status = compare_calls(group, 9, calls);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kInvalid);
    EXPECT_EQ(status.error().peer, Rank(at));
    EXPECT_THAT(
        status.error().message,
        AllOf(HasSubstr("rank " + std::to_string(at) + " calls broadcast U8 [5] from rank 0"),
              HasSubstr("calls barrier"), HasSubstr("#9 of generation 3")));
  }
}

class CallsOfTwo : public ::testing::Test {
 protected:
  const Signature a_ = sign(Barrier{}, "a");
  const Signature b_ = sign(Barrier{}, "b");
  Calls calls_{{Rank{0}, 2, Generation{1}}};
};

TEST_F(CallsOfTwo, AreComparedWhoeverIsFirst) {
  EXPECT_TRUE(calls_.heard(Rank{1}, 1, a_));  // ahead
  EXPECT_TRUE(calls_.enter(1, a_));
  EXPECT_TRUE(calls_.enter(2, a_));
  EXPECT_TRUE(calls_.heard(Rank{1}, 2, a_));  // behind
  EXPECT_FALSE(calls_.heard(Rank{1}, 2, b_));
  EXPECT_TRUE(calls_.heard(Rank{1}, 4, b_));
  EXPECT_TRUE(calls_.enter(3, a_));
  const Status differs = calls_.enter(4, a_);
  ASSERT_FALSE(differs);
  EXPECT_THAT(
      differs.error().message,
      AllOf(HasSubstr("rank 0 calls barrier (a), rank 1 calls barrier (b)"), HasSubstr("#4")));
}

TEST_F(CallsOfTwo, AreForgottenAfterALongTimeOnly) {
  for (std::uint64_t sequence = 1; sequence <= 200; ++sequence)
    ASSERT_TRUE(calls_.enter(sequence, a_));
  EXPECT_FALSE(calls_.heard(Rank{1}, 150, b_));
  EXPECT_TRUE(calls_.heard(Rank{1}, 100, b_));
}

}  // namespace
}  // namespace muster::comm
