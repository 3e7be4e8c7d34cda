// The promise that data parallelism rests on: slices give the same bits on any lane, and their tree
// sum does not depend on how many lanes there were.

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include <thread>

#include "muster/models/create.h"

namespace muster::models {
namespace {

constexpr int kSlices = 8;
constexpr int kSamples = 5;  // a slice; odd, so that kernels have remainders

struct SliceResult {
  std::vector<torch::Tensor> gradients;
  std::vector<torch::Tensor> statistics;
  torch::Tensor loss;
};

struct Task {
  ModelSpec spec;
  torch::Tensor inputs;  // [kSlices * kSamples, …]
  torch::Tensor targets;
  Precision precision = Precision::kF32;
};

torch::Tensor numbers(torch::IntArrayRef shape) {
  const auto count = c10::multiply_integers(shape);
  return torch::sin(torch::arange(count, torch::kFloat32) * 0.37f).view(shape);
}

Task image_task(bool channels_last, NormKind norm = NormKind::kBatch) {
  return {
      ResNetSpec{.channels = {8, 16}, .norm = norm, .dropout = 0.1, .channels_last = channels_last},
      numbers({kSlices * kSamples, 1, 12, 12}), torch::arange(kSlices * kSamples) % 10};
}

Task text_task(ModelSpec spec) {
  const auto text = (torch::arange(kSlices * kSamples * 9) * 7 % 251).view({-1, 9});
  return {std::move(spec), text.narrow(1, 0, 8).to(torch::kUInt8), text.narrow(1, 1, 8)};
}

SliceResult run_slice(Model& model, const Task& task, std::int64_t step, std::int64_t slice) {
  SliceResult result;
  PassContext context{.training = true,
                      .random = RandomStream(1, "forward", step, slice),
                      .statistics = &result.statistics,
                      .auxiliary_weight = 1,
                      .compute = {.precision = task.precision}};
  const auto part = [&](const torch::Tensor& all) {
    return all.narrow(0, slice * kSamples, kSamples);
  };
  const auto loss = model.loss_sum(model.forward(part(task.inputs), context), part(task.targets));
  result.gradients = torch::autograd::grad({loss.sum}, model.parameter_tensors(), {}, std::nullopt,
                                           false, /*allow_unused=*/true);
  for (std::size_t i = 0; i < result.gradients.size(); ++i)  // an expert without a token
    if (!result.gradients[i].defined())
      result.gradients[i] = torch::zeros_like(model.parameters()[i].tensor);
  result.loss = loss.sum.detach();
  return result;
}

// In place, along the binary tree over slices.
void tree_sum(std::vector<std::vector<torch::Tensor>>& values) {
  for (std::size_t stride = 1; stride < values.size(); stride *= 2)
    for (std::size_t i = 0; i + stride < values.size(); i += 2 * stride)
      for (std::size_t k = 0; k < values[i].size(); ++k) values[i][k].add_(values[i + stride][k]);
}

void train_step(std::vector<std::unique_ptr<Model>>& lanes, const Task& task, std::int64_t step) {
  std::vector<SliceResult> results(kSlices);
  std::vector<std::thread> threads;
  for (std::size_t lane = 0; lane < lanes.size(); ++lane)
    threads.emplace_back([&, lane] {
      at::set_num_threads(1);
      for (auto slice = lane; slice < kSlices; slice += lanes.size())
        results[slice] = run_slice(*lanes[lane], task, step, static_cast<std::int64_t>(slice));
    });
  for (auto& thread : threads) thread.join();
  std::vector<std::vector<torch::Tensor>> gradients, statistics;
  for (auto& result : results) {
    gradients.push_back(std::move(result.gradients));
    statistics.push_back(std::move(result.statistics));
  }
  tree_sum(gradients);
  tree_sum(statistics);
  for (auto& mean : statistics[0]) mean.div_(kSlices);
  lanes[0]->apply_statistics(statistics[0]);
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < gradients[0].size(); ++i)
    lanes[0]->parameters()[i].tensor.sub_(gradients[0][i], 0.1 / (kSlices * kSamples));
}

std::vector<torch::Tensor> train(const Task& task, std::size_t lane_count) {
  at::set_num_threads(1);
  std::vector<std::unique_ptr<Model>> lanes;
  lanes.push_back(*create_model(task.spec));
  lanes[0]->initialize(1);
  while (lanes.size() < lane_count) lanes.push_back(lanes[0]->replicate());
  for (std::int64_t step = 0; step < 5; ++step) train_step(lanes, task, step);
  auto result = lanes[0]->parameter_tensors();
  for (const auto& statistic : lanes[0]->statistics()) result.push_back(statistic.tensor);
  return result;
}

class Lanes : public testing::TestWithParam<std::string> {
 protected:
  static Task task() {
    const auto in = [](Precision precision, Task task) {
      task.precision = precision;
      return task;
    };
    const ModelSpec gpt =
        GptSpec{.context = 8, .width = 32, .layers = 2, .heads = 2, .dropout = 0.1};
    const ModelSpec llama = LlamaSpec{
        .context = 8, .width = 32, .layers = 2, .heads = 2, .kv_heads = 1, .dropout = 0.1};
    const ModelSpec moe = MoeSpec{
        .body = LlamaSpec{.context = 8, .width = 32, .layers = 2, .heads = 2, .dropout = 0.1},
        .experts = 5};
    if (GetParam() == "gpt") return text_task(gpt);
    if (GetParam() == "llama") return text_task(llama);
    if (GetParam() == "moe") return text_task(moe);
    if (GetParam() == "moe_with_capacity")
      return text_task(MoeSpec{.body = GptSpec{.context = 8, .width = 32, .layers = 2, .heads = 2},
                               .experts = 5,
                               .experts_per_token = 1,
                               .capacity_factor = 1});
    if (GetParam() == "gpt_bf16") return in(Precision::kBF16, text_task(gpt));
    if (GetParam() == "gpt_fp16") return in(Precision::kF16, text_task(gpt));
    if (GetParam() == "llama_bf16") return in(Precision::kBF16, text_task(llama));
    if (GetParam() == "moe_bf16") return in(Precision::kBF16, text_task(moe));
    if (GetParam() == "image_bf16") return in(Precision::kBF16, image_task(true));
    if (GetParam() == "image_group_norm") return image_task(true, NormKind::kGroup);
    if (GetParam() == "image_no_norm") return image_task(false, NormKind::kNone);
    return image_task(GetParam() == "image_channels_last");
  }
};

TEST_P(Lanes, TheirNumberChangesNoBit) {
  const auto one = train(task(), 1);
  for (const std::size_t lanes : {2, 3, 4}) {
    const auto more = train(task(), lanes);
    for (std::size_t i = 0; i < one.size(); ++i)
      ASSERT_TRUE(torch::equal(one[i], more[i])) << lanes << " lanes, tensor " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Lanes,
                         testing::Values(std::string("image"), std::string("image_channels_last"),
                                         std::string("image_group_norm"),
                                         std::string("image_no_norm"), std::string("image_bf16"),
                                         std::string("gpt"), std::string("gpt_bf16"),
                                         std::string("gpt_fp16"), std::string("llama"),
                                         std::string("llama_bf16"), std::string("moe"),
                                         std::string("moe_with_capacity"), std::string("moe_bf16")),
                         [](const auto& which) { return which.param; });

}  // namespace
}  // namespace muster::models
