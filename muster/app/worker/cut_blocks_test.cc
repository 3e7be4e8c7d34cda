#include "muster/app/worker/cut_blocks.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "muster/job/placement.h"
#include "muster/models/create.h"

namespace muster::app {
namespace {

std::vector<std::string> built_names(const models::ModelSpec& spec) {
  const auto model = models::create_model(spec);
  EXPECT_TRUE(model);
  std::vector<std::string> names;
  names.reserve((*model)->blocks().size());
  for (const models::NamedBlock& block : (*model)->blocks()) names.push_back(block.name);
  return names;
}

TEST(BlockNames, AreThoseOfTheModels) {
  job::ModelSpec model;
  model.type = job::ModelType::kMlp;
  model.mlp.hidden_sizes = {8, 4};
  EXPECT_EQ(job::block_names(model), built_names(models::MlpSpec{.hidden = {8, 4}}));
  model.type = job::ModelType::kResnet;
  model.resnet.channels = {8, 16};
  model.resnet.blocks_per_stage = 2;
  EXPECT_EQ(job::block_names(model),
            built_names(models::ResNetSpec{.channels = {8, 16}, .blocks_per_stage = 2}));
  model.transformer.n_layer = 3;
  model.type = job::ModelType::kGpt;
  EXPECT_EQ(job::block_names(model), built_names(models::GptSpec{.width = 8, .layers = 3}));
  model.type = job::ModelType::kLlama;
  EXPECT_EQ(job::block_names(model), built_names(models::LlamaSpec{.width = 8, .layers = 3}));
  for (const auto type : {job::ModelType::kMlp, job::ModelType::kResnet, job::ModelType::kMoe}) {
    model.type = type;
    EXPECT_EQ(job::block_count(model), std::ssize(job::block_names(model)));
  }
}

// As a worker sees the model of a program's own, whose names the job does not know.
TEST(CutBlocks, ByNamesOfTheModel) {
  const auto model = models::create_model(models::MlpSpec{.hidden = {8, 8, 8}});
  ASSERT_TRUE(model);
  job::StrategySpec strategy;
  strategy.stages = 2;
  strategy.placement = {{"layer0", 0}, {"*", 1}};
  EXPECT_FALSE(cut_by_cost(strategy));
  const auto stage_of = layout::round_robin_placement(2, 1);
  const auto cut = cut_blocks(strategy, **model, {}, stage_of);
  ASSERT_TRUE(cut) << cut.error().message;
  EXPECT_EQ(*cut, (layout::Partition{{0, 1}, {1, 4}}));
  strategy.placement = {{"layer9", 0}, {"*", 1}};
  const auto wrong = cut_blocks(strategy, **model, {}, stage_of);
  ASSERT_FALSE(wrong);
  EXPECT_TRUE(wrong.error().message.starts_with(
      "[job] strategy.placement: no block has a name like `layer9`; there are layer0, layer1, "))
      << wrong.error().message;
}

}  // namespace
}  // namespace muster::app
