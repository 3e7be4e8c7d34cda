#include "muster/base/tensor_slice.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "muster/base/check.h"

namespace muster {
namespace {

struct Box {
  Shape offset;
  Shape shape;
};

// The numbers of a tensor of three axes that lie in a box, in its order.
std::vector<float> numbers_in(const std::vector<float>& whole, const Shape& shape, const Box& box) {
  std::vector<float> found;
  for (std::int64_t i = 0; i < box.shape[0]; ++i)
    for (std::int64_t j = 0; j < box.shape[1]; ++j)
      for (std::int64_t k = 0; k < box.shape[2]; ++k)
        found.push_back(whole[static_cast<std::size_t>(
            ((box.offset[0] + i) * shape[1] + box.offset[1] + j) * shape[2] + box.offset[2] + k)]);
  return found;
}

TEST(TensorSlice, LiesInTheWholeInRunsOfBytes) {
  const Shape shape{4, 3, 5};
  std::vector<float> whole(60);
  std::iota(whole.begin(), whole.end(), 0.0F);
  for (const Box& box :
       {Box{{0, 0, 0}, {4, 3, 5}}, Box{{1, 0, 0}, {2, 3, 5}}, Box{{0, 1, 0}, {4, 2, 5}},
        Box{{0, 0, 2}, {4, 3, 3}}, Box{{1, 1, 0}, {2, 2, 5}}, Box{{2, 0, 1}, {2, 3, 3}},
        Box{{3, 2, 0}, {1, 1, 5}}}) {
    std::vector<float> part = numbers_in(whole, shape, box);
    const TensorSlice slice{
        "t", {DType::kF32, box.shape, std::as_writable_bytes(std::span(part))}, shape, box.offset};
    const ByteRuns runs = runs_of(slice);
    std::vector<float> found(part.size());
    ASSERT_EQ(runs.runs * runs.length, found.size() * sizeof(float));
    ASSERT_LE(runs.end(), whole.size() * sizeof(float));
    for (std::uint64_t run = 0; run < runs.runs; ++run)
      std::memcpy(reinterpret_cast<std::byte*>(found.data()) + run * runs.length,
                  reinterpret_cast<const std::byte*>(whole.data()) + runs.first + run * runs.pitch,
                  runs.length);
    EXPECT_EQ(found, part);
  }
}

TEST(TensorSlice, IsCutAlongTheFirstAxisAndOneOtherAtMost) {
  std::vector<float> part(4);
  const TensorSlice slice{
      "t", {DType::kF32, {2, 1, 2}, std::as_writable_bytes(std::span(part))}, {2, 3, 5}, {0, 1, 2}};
  EXPECT_THROW((void)runs_of(slice), LogicFault);
}

}  // namespace
}  // namespace muster
