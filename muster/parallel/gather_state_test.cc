#include "muster/parallel/gather_state.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

#include "muster/comm/backend/loopback/loopback.h"
#include "muster/parallel/state_order.h"

namespace muster::parallel {
namespace {

constexpr std::int64_t kRows = 12, kColumns = 24;

// What a rank holds of "rows", "columns", "own" (each a different one) and "replica", with values
// that say where in the whole they belong.
class Holding {
 public:
  Holding(std::int32_t rank, std::int32_t ranks) {
    const std::int64_t rows = kRows / ranks, columns = kColumns / ranks;
    cut("rows", {rows, kColumns}, {rank * rows, 0});
    cut("columns", {kRows, columns}, {0, rank * columns});
    cut("own" + std::to_string(rank), {kRows, kColumns}, {0, 0});
    cut("replica", {kRows, kColumns}, {0, 0});
  }
  const std::vector<TensorSlice>& slices() const { return slices_; }

 private:
  void cut(std::string name, const Shape& shape, const Shape& offset) {
    auto& values = memory_.emplace_back();
    for (std::int64_t row = 0; row < shape[0]; ++row)
      for (std::int64_t column = 0; column < shape[1]; ++column)
        values.push_back((row + offset[0]) * kColumns + column + offset[1]);
    slices_.push_back({std::move(name),
                       {DType::kI64, shape, std::as_writable_bytes(std::span(values))},
                       {kRows, kColumns},
                       offset});
  }
  std::vector<std::vector<std::int64_t>> memory_;
  std::vector<TensorSlice> slices_;
};

class GatherState : public testing::TestWithParam<std::int32_t> {};

TEST_P(GatherState, MakesWholesOfPartsOnAnyRank) {
  const std::int32_t ranks = GetParam();
  const Rank to{ranks - 1};
  const auto communicators = comm::create_loopback(ranks);
  std::vector<std::jthread> threads;
  for (std::int32_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      const Holding holding(rank, ranks);
      GatheredState gathered;
      const auto whole =
          gathered.gather(*communicators[static_cast<std::size_t>(rank)], holding.slices(), to, {});
      ASSERT_TRUE(whole) << whole.error().message;
      ASSERT_EQ(whole->size(), static_cast<std::size_t>(Rank{rank} == to ? 3 + ranks : 0));
      for (const TensorSlice& slice : *whole) {
        ASSERT_EQ(slice.tensor.shape, (Shape{kRows, kColumns})) << slice.name;
        const auto values = slice.tensor.as<std::int64_t>();
        for (std::size_t i = 0; i < values.size(); ++i)
          ASSERT_EQ(values[i], static_cast<std::int64_t>(i)) << slice.name;
      }
    });
}

INSTANTIATE_TEST_SUITE_P(Worlds, GatherState, testing::Values(1, 2, 3, 4));

TEST(GatherStateErrors, NamesWhatNobodyHolds) {
  const auto communicator = comm::create_loopback(1).front();
  std::vector<float> half(3);
  const TensorSlice slice{"weight", view_of(std::span(half)), {6}, {0}};
  GatheredState gathered;
  const auto whole = gathered.gather(*communicator, {slice}, Rank{0}, {});
  ASSERT_FALSE(whole);
  EXPECT_NE(whole.error().message.find("12 bytes of `weight`"), std::string::npos)
      << whole.error().message;
}

TEST(StateOrder, IsThatOfTheOwners) {
  std::vector<TensorSlice> state;
  for (const char* name : {"optimizer/b.w/momentum", "optimizer/a.w/x", "optimizer/a.w/y"})
    state.push_back({name, {}, {}, {}});
  sort_by_owner({"a.w", "b.w"}, state);
  EXPECT_EQ(state[0].name, "optimizer/a.w/x");
  EXPECT_EQ(state[1].name, "optimizer/a.w/y");
  EXPECT_EQ(state[2].name, "optimizer/b.w/momentum");
}

}  // namespace
}  // namespace muster::parallel
