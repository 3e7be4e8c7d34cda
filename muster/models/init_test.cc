#include "muster/models/init.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "muster/base/random.h"

namespace muster::models {
namespace {

TEST(Init, IsTheStreamOfTheName) {
  const RandomStream stream = RandomStream(3, "init").fork("a.weight");
  auto odd = torch::empty({7, 3});
  initialize(odd, {InitKind::kNormal, 0.5}, 3, "a.weight");
  for (std::int64_t i = 0; i < 21; ++i)
    EXPECT_EQ(odd.flatten()[i].item<float>(), stream.normal(i) * 0.5f) << i;
  initialize(odd, {InitKind::kUniform, 2.0}, 3, "a.weight");
  for (std::int64_t i = 0; i < 21; ++i)
    EXPECT_FLOAT_EQ(odd.flatten()[i].item<float>(), (2 * stream.uniform(i) - 1) * 2.0f) << i;
}

TEST(Init, HasTheMomentsItSays) {
  auto weight = torch::empty({64, 32, 3, 3});
  initialize(weight, {InitKind::kKaiming, std::sqrt(2.0)}, 1, "w");
  const double deviation = std::sqrt(2.0 / (32 * 9));
  EXPECT_NEAR(weight.mean().item<double>(), 0, deviation * 0.03);
  EXPECT_NEAR(weight.std().item<double>(), deviation, deviation * 0.03);
  initialize(weight, {InitKind::kUniform, 0.1}, 1, "w");
  EXPECT_LT(weight.abs().max().item<float>(), 0.1f + 1e-6f);
  EXPECT_NEAR(weight.std().item<double>(), 0.1 / std::sqrt(3.0), 0.002);
}

TEST(Init, IsTheSameInAnyLayoutAndDtype) {
  auto plain = torch::empty({8, 4, 3, 3});
  auto last = torch::empty({8, 4, 3, 3}).contiguous(torch::MemoryFormat::ChannelsLast);
  auto half = torch::empty({8, 4, 3, 3}, torch::kBFloat16);
  for (auto& tensor : {plain, last, half}) initialize(tensor, {InitKind::kNormal, 1}, 1, "w");
  EXPECT_TRUE(torch::equal(plain, last));
  EXPECT_TRUE(torch::equal(plain.to(torch::kBFloat16), half));
}

TEST(Init, ConstantsAndKeep) {
  auto tensor = torch::full({5}, 7.0);
  initialize(tensor, {InitKind::kKeep}, 1, "w");
  EXPECT_EQ(tensor[0].item<float>(), 7);
  initialize(tensor, {InitKind::kOnes}, 1, "w");
  EXPECT_EQ(tensor.sum().item<float>(), 5);
  initialize(tensor, {InitKind::kZeros}, 1, "w");
  EXPECT_EQ(tensor.sum().item<float>(), 0);
}

}  // namespace
}  // namespace muster::models
