#include "muster/app/worker/block_costs.h"

#include <gtest/gtest.h>

#include <memory>

#include "muster/models/create.h"
#include "muster/parallel/testing/toy_batch.h"

namespace muster::app {
namespace {

double flops_of(const models::ModelSpec& spec, std::int64_t samples) {
  const auto model = models::create_model(spec);
  EXPECT_TRUE(model);
  const parallel::Batch batch(samples, {0}, 1, parallel::content_of(spec),
                              parallel::context_of(spec));
  const auto flops = count_flops(**model, batch.step, job::JobSpec());
  EXPECT_TRUE(flops);
  return flops ? *flops : 0;
}

// Two for each weight and pass, and a pass for the gradient of the weights and one for that of what
// comes in, which the first layer does without.
TEST(CountFlops, OfAnMlpIsSixForEachWeight) {
  const models::MlpSpec mlp{.inputs = 64, .hidden = {16}, .classes = 10};
  for (const std::int64_t samples : {8, 16, 64})
    EXPECT_EQ(flops_of(mlp, samples), 4 * 64 * 16 + 6 * 16 * 10) << samples;
}

// Chowdhery et al. 2022, appendix B: 6 N + 12 L H Q T for each token.
TEST(CountFlops, OfAGptIsWhatPalmCounts) {
  const models::GptSpec gpt{.vocabulary = 64, .context = 6, .width = 8, .layers = 2, .heads = 2};
  const double weights = 2 * 12 * 8 * 8 + 64 * 8;  // that take part in products
  EXPECT_EQ(flops_of(gpt, 16), 6 * (6 * weights + 12 * 2 * 8 * 6));
}

}  // namespace
}  // namespace muster::app
