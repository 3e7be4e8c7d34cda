#include "muster/parallel/part_slices.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <vector>

#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {
namespace {

// Rows 2, 3 and 8, 9, 10 of twelve; of these the part's rows 1, 2 and 3.
TEST(PartSlices, AreThoseOfTheRunsThatRowsLieIn) {
  const models::TensorCut cut{{12, 2}, 0, {{2, 4}, {8, 11}}};
  const at::Tensor rows = at::arange(6, at::kFloat).view({3, 2});
  std::vector<TensorSlice> slices;
  add_slices(slices, "t", rows, cut, {1, 5});
  ASSERT_EQ(slices.size(), 2U);
  EXPECT_EQ(slices[0].offset, (Shape{3, 0}));
  EXPECT_EQ(slices[0].tensor.shape, (Shape{1, 2}));
  EXPECT_EQ(slices[1].offset, (Shape{8, 0}));
  EXPECT_EQ(slices[1].tensor.shape, (Shape{2, 2}));
  EXPECT_EQ(slices[1].global_shape, (Shape{12, 2}));
  EXPECT_TRUE(at::equal(tensor_over(slices[1].tensor), rows.narrow(0, 1, 2)));
}

TEST(PartSlices, HaveTheRowsOfATensorThatIsCutAlongAnotherAxis) {
  const models::TensorCut cut{{7, 9}, 1, {{3, 6}}};
  std::vector<TensorSlice> slices;
  add_slices(slices, "t", at::zeros({2, 3}), cut, {4, 7});
  ASSERT_EQ(slices.size(), 1U);
  EXPECT_EQ(slices[0].offset, (Shape{4, 3}));
  EXPECT_EQ(slices[0].global_shape, (Shape{7, 9}));
}

TEST(PartSlices, OfWholeTensorsAreTheirRows) {
  std::vector<TensorSlice> slices;
  add_slices(slices, "rows", at::zeros({2, 3}), {}, {1, 7});
  add_slices(slices, "all", at::zeros({4}), {});
  add_slices(slices, "number", at::zeros({}), {});
  ASSERT_EQ(slices.size(), 3U);
  EXPECT_EQ(slices[0].offset, (Shape{1, 0}));
  EXPECT_EQ(slices[0].global_shape, (Shape{7, 3}));
  EXPECT_EQ(slices[1].global_shape, (Shape{4}));
  EXPECT_TRUE(slices[2].global_shape.empty());
}

}  // namespace
}  // namespace muster::parallel
