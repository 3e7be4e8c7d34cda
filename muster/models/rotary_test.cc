#include "muster/models/rotary.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "muster/base/check.h"
#include "muster/models/positions.h"

namespace muster::models {
namespace {

torch::Tensor heads(double phase) {
  return torch::sin(torch::arange(2 * 3 * 9 * 6, torch::kFloat64) * 0.37 + phase)
      .view({2, 3, 9, 6});
}

TEST(Rotary, TurnsPairsByTheAngleOfTheirPosition) {
  const RotaryTable table(9, 6, 100.0);
  const auto input = heads(0), output = table.rotate(input);
  for (std::int64_t position = 0; position < 9; ++position)
    for (std::int64_t pair = 0; pair < 3; ++pair) {
      const double angle = position * std::pow(100.0, -2.0 * pair / 6);
      const double a = input[1][2][position][pair].item<double>();
      const double b = input[1][2][position][pair + 3].item<double>();
      EXPECT_NEAR(output[1][2][position][pair].item<double>(),
                  a * std::cos(angle) - b * std::sin(angle), 1e-14);
      EXPECT_NEAR(output[1][2][position][pair + 3].item<double>(),
                  b * std::cos(angle) + a * std::sin(angle), 1e-14);
    }
}

// What attention sees of two positions is how far they are apart.
TEST(Rotary, ProductsDependOnTheDistance) {
  const RotaryTable table(9, 6, 10000.0);
  const auto one = heads(0)[0][0][0], other = heads(1)[0][0][0];
  const auto everywhere = [](const torch::Tensor& head) { return head.expand({1, 1, 9, 6}); };
  const auto query = table.rotate(everywhere(one))[0][0];
  const auto key = table.rotate(everywhere(other))[0][0];
  const auto scores = query.matmul(key.t());
  for (std::int64_t i = 1; i < 9; ++i)
    for (std::int64_t j = 1; j < 9; ++j)
      EXPECT_NEAR(scores[i][j].item<double>(), scores[i - 1][j - 1].item<double>(), 1e-13);
  EXPECT_GT((scores[0] - scores[0][0]).abs().max().item<double>(), 0.1);
}

TEST(Rotary, IsTheSameForTheFirstPositionsOfALongerTable) {
  const auto input = heads(0).to(torch::kFloat32);
  EXPECT_TRUE(torch::equal(RotaryTable(9, 6, 100.0).rotate(input),
                           RotaryTable(20, 6, 100.0).rotate(input)));
  EXPECT_THROW(RotaryTable(9, 5, 100.0), LogicFault);
}

TEST(Rotary, TurnsAPartOfThePositionsAsTheWhole) {
  const RotaryTable table(9, 6, 100.0);
  const AxisPart part{9, {{1, 3}, {6, 8}}};
  const auto input = heads(0);
  const auto found = table.rotate(take(input, 2, part), part);
  EXPECT_LT((found - take(table.rotate(input), 2, part)).abs().max().item<double>(), 1e-14);
}

// Short numbers are turned in f32: one rounding, at the end.
TEST(Rotary, KeepsTheDtype) {
  const RotaryTable table(9, 6, 100.0);
  const auto input = heads(0).to(torch::kBFloat16), output = table.rotate(input);
  EXPECT_EQ(output.scalar_type(), torch::kBFloat16);
  EXPECT_TRUE(torch::equal(output, table.rotate(input.to(torch::kFloat32)).to(torch::kBFloat16)));
}

}  // namespace
}  // namespace muster::models
