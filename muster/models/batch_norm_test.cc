// Batch norm belongs to the slice: what it normalises by, what it reports, what it leaves alone.

#include <gtest/gtest.h>
#include <torch/types.h>

#include "muster/base/check.h"
#include "muster/models/create.h"
#include "muster/models/layers.h"

namespace muster::models {
namespace {

class NormBlock final : public Block {
 public:
  NormBlock() : norm_(*this, "norm", 3) {}
  torch::Tensor forward(torch::Tensor input, PassContext& context) override {
    return norm_(input, context);
  }

 private:
  BatchNorm norm_;
};

Model norm_model() {
  Model model("norm", [] { return std::vector<NamedBlock>{{"a", std::make_shared<NormBlock>()}}; });
  model.initialize(1);
  return model;
}

TEST(BatchNorm, ReportsMeanAndUnbiasedVarianceOfTheSlice) {
  auto model = norm_model();
  const auto input = torch::sin(torch::arange(4 * 3 * 5 * 5, torch::kFloat32)).view({4, 3, 5, 5});
  std::vector<torch::Tensor> statistics;
  PassContext context{.random = RandomStream(1, "test"), .statistics = &statistics};
  const auto output = model.forward(input, context).detach();
  ASSERT_EQ(statistics.size(), 2u);
  const auto columns = input.transpose(0, 1).flatten(1);
  EXPECT_TRUE(torch::allclose(statistics[0], columns.mean(1), 1e-5, 1e-7));
  EXPECT_TRUE(torch::allclose(statistics[1], columns.var(1, true), 1e-5, 1e-7));
  const auto out_columns = output.transpose(0, 1).flatten(1);
  EXPECT_TRUE(torch::allclose(out_columns.mean(1), torch::zeros(3), 1e-5, 1e-5));
  EXPECT_TRUE(torch::allclose(out_columns.var(1, false), torch::ones(3), 1e-3, 1e-4));
  EXPECT_TRUE(torch::equal(model.statistics()[0].tensor, torch::zeros(3))) << "touched in forward";
  EXPECT_TRUE(torch::equal(model.statistics()[1].tensor, torch::ones(3))) << "touched in forward";
}

TEST(BatchNorm, AppliesMergedStatisticsOnceForAllReplicas) {
  auto model = norm_model();
  auto replica = model.replicate();
  const std::vector<torch::Tensor> merged{torch::tensor({1.0f, 2.0f, 3.0f}),
                                          torch::tensor({2.0f, 3.0f, 4.0f})};
  model.apply_statistics(merged, 0.25);
  EXPECT_TRUE(torch::allclose(replica->statistics()[0].tensor, merged[0] * 0.25));
  EXPECT_TRUE(torch::allclose(replica->statistics()[1].tensor, 0.75 + merged[1] * 0.25));
  const auto input = torch::ones({2, 3, 2, 2});
  PassContext context{.training = false, .random = RandomStream(1, "test")};
  const auto expected = (torch::ones(3) - merged[0] * 0.25) / torch::sqrt(0.75 + merged[1] * 0.25);
  EXPECT_TRUE(torch::allclose(replica->forward(input, context)[1].select(1, 0).select(1, 0),
                              expected, 1e-4, 1e-5));
  EXPECT_THROW(model.apply_statistics({merged.data(), 1}), LogicFault);
}

TEST(BatchNorm, EvaluationReportsNothing) {
  auto model = *create_model(ResNetSpec{.channels = {4}});
  model->initialize(1);
  std::vector<torch::Tensor> statistics;
  PassContext context{.training = false, .random = RandomStream(1, "t"), .statistics = &statistics};
  model->forward(torch::ones({2, 1, 8, 8}), context);
  EXPECT_TRUE(statistics.empty());
}

}  // namespace
}  // namespace muster::models
