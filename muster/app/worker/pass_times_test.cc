#include "muster/app/worker/pass_times.h"

#include <gtest/gtest.h>

#include <memory>

#include "muster/models/create.h"
#include "muster/parallel/testing/toy_batch.h"

namespace muster::app {
namespace {

constexpr Duration kNotTimed = Duration::max();

struct Toy {
  models::MlpSpec spec{.inputs = 64, .hidden = {16, 16}, .classes = 10};
  std::unique_ptr<models::Model> model = models::create_model(spec).value();
  parallel::Batch batch{8, {0}, 1, parallel::content_of(spec), parallel::context_of(spec)};
  parallel::Examples examples = parallel::examples_of(batch.step.slices.front());
  std::vector<plan::BlockPass> blocks{
      model->blocks().size(),
      plan::BlockPass{.forward = kNotTimed, .backward = kNotTimed, .activation_bytes = 100}};
  Toy() { model->initialize(0); }
};

TEST(TimePasses, TimesEachBlockWithAnyNumberAtOnce) {
  for (const AtOnce at_once : {AtOnce{1, 1}, AtOnce{2, 1}, AtOnce{3, 2}, AtOnce{2, 2}}) {
    Toy toy;
    ASSERT_TRUE(time_passes(*toy.model, toy.examples, job::JobSpec(), at_once, toy.blocks));
    for (const plan::BlockPass& block : toy.blocks) {
      EXPECT_GT(block.forward, Duration{});
      EXPECT_GT(block.backward, Duration{});
      EXPECT_LT(std::max(block.forward, block.backward), kNotTimed);
    }
  }
}

TEST(TimePasses, LeavesWeightsAsTheyWere) {
  Toy toy;
  std::vector<at::Tensor> before;
  for (const models::Parameter& parameter : toy.model->parameters())
    before.push_back(parameter.tensor.detach().clone());
  ASSERT_TRUE(time_passes(*toy.model, toy.examples, job::JobSpec(), {2, 2}, toy.blocks));
  for (std::size_t i = 0; i < before.size(); ++i) {
    const at::Tensor& now = toy.model->parameters()[i].tensor;
    EXPECT_TRUE(at::equal(before[i], now));
    EXPECT_FALSE(now.grad().defined());
  }
}

TEST(TimePasses, NothingIsTimedOfWhatIsFrozen) {
  Toy toy;
  for (const models::Parameter& parameter : toy.model->parameters())
    at::Tensor(parameter.tensor).set_requires_grad(false);
  ASSERT_TRUE(time_passes(*toy.model, toy.examples, job::JobSpec(), {}, toy.blocks));
  for (const plan::BlockPass& block : toy.blocks) EXPECT_LT(block.backward, kNotTimed);
}

TEST(BytesToTime, AreThoseOfEachPassAndOfEachOtherWorker) {
  const Toy toy;
  std::uint64_t weights = 0;
  for (const models::Parameter& parameter : toy.model->parameters())
    weights += parameter.tensor.nbytes();
  const std::uint64_t pass = 2 * weights + 100 * toy.blocks.size();
  EXPECT_EQ(bytes_to_time(*toy.model, toy.blocks, {1, 1}), pass);
  EXPECT_EQ(bytes_to_time(*toy.model, toy.blocks, {4, 1}), 4 * pass);
  EXPECT_EQ(bytes_to_time(*toy.model, toy.blocks, {4, 2}), 4 * pass + weights);
}

}  // namespace
}  // namespace muster::app
