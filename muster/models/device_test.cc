// Models on a device whose memory the host cannot touch compute as they do on the host.
#include "muster/models/device.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <memory>
#include <vector>

#include "muster/models/generate.h"
#include "muster/models/testing/foreign_device.h"
#include "muster/models/testing/task.h"

namespace muster::models {
namespace {

std::vector<Task> tasks() {
  constexpr std::int64_t kSamples = 4;
  const LlamaSpec llama{.context = 8, .width = 16, .layers = 2, .heads = 2};
  return {{MlpSpec{.inputs = 12, .hidden = {8}, .dropout = 0.2}, waves({kSamples, 12}),
           torch::arange(kSamples)},
          image_task(kSamples, true),
          image_task(kSamples, false, NormKind::kGroup),
          text_task(kSamples,
                    GptSpec{.context = 8, .width = 16, .layers = 2, .heads = 2, .dropout = 0.1}),
          text_task(kSamples, llama),
          text_task(kSamples, MoeSpec{.body = llama})};
}

std::unique_ptr<Model> make(const Task& task, c10::Device device) {
  const ScopedDevice here(device);
  auto model = create_model(task.spec).value();
  model->initialize(3);
  return model;
}

// Loss, gradients and statistics of a training pass, then an evaluation's loss.
std::vector<torch::Tensor> run(Model& model, const Task& task) {
  std::vector<torch::Tensor> statistics;
  PassContext context{
      .random = RandomStream(1, "forward"), .statistics = &statistics, .auxiliary_weight = 1};
  const LossSum loss = model.loss_sum(model.forward(task.inputs, context), task.targets);
  std::vector<torch::Tensor> found{loss.sum.detach(), loss.correct};
  for (const auto& gradient : torch::autograd::grad({loss.sum}, model.parameter_tensors()))
    found.push_back(gradient);
  found.insert(found.end(), statistics.begin(), statistics.end());
  model.apply_statistics(statistics);
  const at::NoGradGuard no_grad;
  PassContext evaluation{.training = false, .random = RandomStream(1, "none")};
  found.push_back(
      model.evaluation_loss_sum(model.forward(task.inputs, evaluation), task.targets).sum);
  return found;
}

// Attention takes libtorch's general way there, which adds in another order.
TEST(Device, ComputesWhatTheHostDoes) {
  const c10::Device foreign = foreign_device();
  for (const Task& task : tasks()) {
    SCOPED_TRACE(family_of(task.spec));
    const auto model = make(task, foreign);
    for (const Parameter& parameter : model->parameters())
      EXPECT_EQ(parameter.tensor.device(), foreign) << parameter.name;
    const auto host = make(task, c10::kCPU);
    const auto expected = run(*host, task), found = run(*model, task);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].device(), foreign) << i;
      EXPECT_TRUE(torch::allclose(found[i].cpu(), expected[i], 1e-5, 1e-6)) << i;
    }
  }
}

TEST(Device, ReplicasShareItsMemory) {
  const auto model = make(tasks().front(), foreign_device());
  const auto replica = model->replicate();
  EXPECT_EQ(replica->device(), model->device());
  for (std::size_t i = 0; i < model->parameters().size(); ++i)
    EXPECT_EQ(replica->parameters()[i].tensor.unsafeGetTensorImpl()->data(),
              model->parameters()[i].tensor.unsafeGetTensorImpl()->data());
}

TEST(Device, WritesTheSameText) {
  const Task task = tasks()[3];
  const GenerateOptions options{.length = 20, .temperature = 1, .context = 8};
  const auto text = [&](c10::Device device) {
    return generate_text(*make(task, device), "and", options, RandomStream(1, "text")).value();
  };
  EXPECT_EQ(text(foreign_device()), text(c10::kCPU));
}

TEST(Device, IsThatOfTheInnermostScope) {
  const c10::Device foreign = foreign_device();
  EXPECT_EQ(building_device(), c10::Device(c10::kCPU));
  const ScopedDevice outer(foreign);
  EXPECT_EQ(building_device(), foreign);
  {
    const ScopedDevice inner(c10::kCPU);
    EXPECT_EQ(building_device(), c10::Device(c10::kCPU));
  }
  EXPECT_EQ(building_device(), foreign);
}

// Else all of this would prove nothing.
TEST(DeviceDeathTest, MemoryOfTheForeignDeviceIsOutOfReach) {
  const auto tensor = torch::ones({4}, torch::TensorOptions().device(foreign_device()));
  EXPECT_EQ(tensor.cpu()[3].item<float>(), 1);
  EXPECT_DEATH((void)*const_cast<const volatile float*>(tensor.const_data_ptr<float>()), "");
}

}  // namespace
}  // namespace muster::models
