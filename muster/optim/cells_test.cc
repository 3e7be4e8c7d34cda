#include "muster/optim/cells.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace muster::optim {
namespace {

using Shape = std::vector<std::int64_t>;

TEST(Cells, AreWholeRowsAndWholeVectorsOfAThousandElementsOrMore) {
  for (const Shape& shape :
       {Shape{5000}, {384, 128}, {64, 64, 3, 3}, {1000, 9}, {50, 4608}, {7777, 77}, {100, 3, 3}}) {
    const Cells cells = cells_of(shape);
    EXPECT_EQ(cells.size % cells.row, 0);
    EXPECT_EQ(cells.size % 64, 0);
    EXPECT_GE(cells.size, 1024);
    EXPECT_EQ(cells.begin(cells.count()), cells.elements);
    EXPECT_LT(cells.begin(cells.count() - 1), cells.elements);
  }
  EXPECT_EQ(cells_of(Shape{384, 128}).size, 1024);
  EXPECT_EQ(cells_of(Shape{50, 4608}).size, 4608) << "one row is enough";
}

TEST(Cells, SmallAndEmptyTensors) {
  EXPECT_EQ(cells_of(Shape{}).count(), 1) << "a scalar";
  EXPECT_EQ(cells_of(Shape{10}).count(), 1);
  EXPECT_EQ(cells_of(Shape{0, 4}).count(), 0);
  EXPECT_EQ(cells_of(Shape{4, 0}).count(), 0);
}

TEST(Cells, SumOfSquares) {
  for (const std::size_t count : {0, 1, 7, 8, 9, 1023}) {
    std::vector<float> values;
    double expected = 0;
    for (std::size_t i = 0; i < count; ++i) {
      values.push_back(static_cast<float>(i % 5));  // sums of whole numbers are exact
      expected += static_cast<double>((i % 5) * (i % 5));
    }
    EXPECT_EQ(sum_of_squares(values), expected) << count;
  }
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isinf(sum_of_squares(std::vector<float>{1, infinity})));
  EXPECT_TRUE(std::isnan(sum_of_squares(std::vector<float>{1, std::nanf("")})));
  EXPECT_TRUE(std::isfinite(sum_of_squares(std::vector<float>(3, 1e30F))));
}

}  // namespace
}  // namespace muster::optim
