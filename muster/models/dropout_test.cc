#include "muster/models/dropout.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <thread>

#include "muster/base/check.h"
#include "muster/models/create.h"
#include "muster/models/positions.h"

namespace muster::models {
namespace {

TEST(Dropout, MaskIsAPureFunctionOfTheStream) {
  const RandomStream stream(1, "dropout", 3, 4);
  const auto mask = dropout_mask({7, 101}, 0.25, stream);
  torch::Tensor elsewhere;
  std::thread([&] { elsewhere = dropout_mask({7, 101}, 0.25, stream); }).join();
  EXPECT_TRUE(torch::equal(mask, elsewhere));
  EXPECT_TRUE(torch::equal(mask.flatten(), dropout_mask({707}, 0.25, stream)));
  EXPECT_FALSE(torch::equal(mask, dropout_mask({7, 101}, 0.25, stream.fork("other"))));
  const float keep = 1.0f / 0.75f;
  for (std::int64_t i = 0; i < 707; ++i)
    EXPECT_EQ(mask.flatten()[i].item<float>(), stream.uniform(i) < 0.25f ? 0.0f : keep);
}

TEST(Dropout, KeepsTheMean) {
  const auto mask = dropout_mask({200'000}, 0.3, RandomStream(1, "dropout"));
  EXPECT_NEAR(mask.mean().item<double>(), 1.0, 0.01);
  EXPECT_NEAR(mask.eq(0).to(torch::kFloat64).mean().item<double>(), 0.3, 0.01);
}

TEST(Dropout, GradientPassesThroughTheSameMask) {
  const auto input = torch::ones({50}, torch::requires_grad());
  const auto output = dropout(input, 0.5, RandomStream(1, "dropout"));
  output.sum().backward();
  EXPECT_TRUE(torch::equal(input.grad(), output.detach()));
}

TEST(Dropout, ProbabilityZeroIsTheInputItself) {
  const auto input = torch::ones({50});
  EXPECT_TRUE(dropout(input, 0, RandomStream(1, "dropout")).is_same(input));
  EXPECT_THROW(dropout(input, 1, RandomStream(1, "dropout")), LogicFault);
}

// Whoever has some positions of a sequence drops what one who has all of them would drop there.
TEST(Dropout, OfAPartIsThatOfTheWhole) {
  const RandomStream stream(3, "dropout", 5);
  const auto whole = dropout_mask({3, 20, 7}, 0.4, stream);
  for (const AxisPart& part :
       {AxisPart{20, {{5, 9}}}, AxisPart{20, {{0, 3}, {17, 20}}}, AxisPart{20, {{0, 20}}}}) {
    const auto wanted = take(whole, 1, part);
    EXPECT_TRUE(torch::equal(dropout_mask(wanted.sizes(), part, 0.4, stream), wanted));
    EXPECT_TRUE(torch::equal(dropout(torch::ones_like(wanted), part, 0.4, stream), wanted));
  }
}

// Each place in a model, each step and each slice draws its own mask; evaluation draws none.
TEST(Dropout, IsKeyedByPlaceAndPass) {
  auto model = *create_model(MlpSpec{.inputs = 16, .hidden = {64, 64}, .dropout = 0.5});
  model->initialize(1);
  const auto input = torch::ones({4, 16});
  const auto run = [&](bool training, std::uint64_t step) {
    PassContext context{.training = training, .random = RandomStream(1, "forward", step)};
    return model->forward(input, context);
  };
  EXPECT_TRUE(torch::equal(run(true, 1), run(true, 1)));
  EXPECT_FALSE(torch::equal(run(true, 1), run(true, 2)));
  EXPECT_TRUE(torch::equal(run(false, 1), run(false, 2)));
  PassContext context{.training = true, .random = RandomStream(1, "forward", 1)};
  const auto ones = torch::ones({1, 64});
  const auto first = dropout(ones, 0.5, context.random.fork("layer0").fork("dropout"));
  const auto second = dropout(ones, 0.5, context.random.fork("layer1").fork("dropout"));
  EXPECT_FALSE(torch::equal(first, second));
}

}  // namespace
}  // namespace muster::models
