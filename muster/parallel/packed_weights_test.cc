#include "muster/parallel/packed_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "muster/comm/narrow.h"

namespace muster::parallel {
namespace {

std::vector<float> uneven(std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(std::sin(static_cast<float>(i)) * 3.0F);
  return values;
}

// What arrives where each rank's shard has come to its place.
std::vector<float> sent(const PackedWeights& packed, const comm::Shards& shards,
                        const std::vector<float>& values) {
  std::vector<float> whole(values.size(), NAN);
  for (std::int32_t rank = 0; rank < shards.size(); ++rank) {
    const auto own =
        std::span(values).subspan(static_cast<std::size_t>(shards.begin_of(Rank{rank})),
                                  static_cast<std::size_t>(shards.count_of(Rank{rank})));
    const TensorView words = packed.pack(own, Rank{rank}, whole);
    EXPECT_EQ(words.count(), packed.shards()->count_of(Rank{rank}));
    EXPECT_EQ(words.bytes.data(),
              packed.words_in(whole).bytes.data() + 2 * packed.shards()->begin_of(Rank{rank}));
  }
  packed.unpack(whole);
  return whole;
}

// Pieces of many sizes, with borders of shards inside of runs.
TEST(PackedWeights, ArriveRoundedWhereTheyAreNarrow) {
  const comm::Shards shards{{0, 5, 5, 3001, 9000}};
  const std::vector<PackedWeights::Run> runs = {
      {3, false}, {2900, true}, {3010, false}, {8999, true}, {9000, false}};
  const std::vector<float> values = uneven(9000);
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    std::vector<float> expected = values;
    for (const auto& [begin, count] : {std::pair<std::size_t, std::size_t>{3, 2897}, {3010, 5989}})
      comm::round_to(dtype, std::span(expected).subspan(begin, count));
    const PackedWeights packed(dtype, shards, runs);
    EXPECT_EQ(sent(packed, shards, values), expected);
    EXPECT_NE(expected, values);
    EXPECT_EQ(packed.shards()->count(), 9000 + 3 + 110 + 1) << "two words of a float";
    EXPECT_EQ(packed.shards()->begin_of(Rank{1}), 3 * 2 + 2);
    EXPECT_EQ(packed.shards()->count_of(Rank{1}), 0);
  }
}

TEST(PackedWeights, AreAsTheyWereWhereNothingIsNarrow) {
  const comm::Shards shards{{0, 7, 16}};
  const std::vector<float> values = uneven(16);
  const PackedWeights packed(DType::kBF16, shards, {{.end = 16, .narrow = false}});
  EXPECT_EQ(sent(packed, shards, values), values);
}

}  // namespace
}  // namespace muster::parallel
