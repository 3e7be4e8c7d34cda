// Models on a device whose memory the host cannot touch compute as they do on the host.
#include "muster/models/device.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <memory>
#include <vector>

#include "muster/models/generate.h"
#include "muster/models/testing/foreign_device.h"
#include "muster/models/testing/one_pass.h"

namespace muster::models {
namespace {

const GptSpec kBody{.context = 8, .width = 16, .layers = 2, .heads = 2};

std::unique_ptr<Model> make_on(c10::Device device, const ModelSpec& spec) {
  const ScopedDevice here(device);
  return make(spec);
}

// What a training pass gives, then the loss of an evaluation with the statistics that it gave.
std::vector<torch::Tensor> passes_of(Model& model, const ModelSpec& spec) {
  const Pass pass = run(model, spec);
  std::vector<torch::Tensor> found{pass.logits.detach(), pass.loss.sum.detach(), pass.loss.correct};
  found.insert(found.end(), pass.gradients.begin(), pass.gradients.end());
  found.insert(found.end(), pass.statistics.begin(), pass.statistics.end());
  model.apply_statistics(pass.statistics);
  const at::NoGradGuard no_grad;
  PassContext context{.training = false, .random = RandomStream(1, "none")};
  found.push_back(
      model.evaluation_loss_sum(model.forward(inputs_of(spec), context), targets_of(spec)).sum);
  return found;
}

// Batch norm with its ReLU takes muster's general way there, which adds in another order.
TEST(Device, ComputesWhatTheHostDoes) {
  const c10::Device foreign = foreign_device();
  for (const ModelSpec& spec : {kMlp, kResNet, kGpt, kLlama, ModelSpec(MoeSpec{.body = kBody})}) {
    SCOPED_TRACE(family_of(spec));
    const auto host = make(spec), model = make_on(foreign, spec);
    for (const Parameter& parameter : model->parameters())
      EXPECT_EQ(parameter.tensor.device(), foreign) << parameter.name;
    const auto expected = passes_of(*host, spec), found = passes_of(*model, spec);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].device(), foreign) << i;
      const double tolerance = std::holds_alternative<ResNetSpec>(spec) ? 1e-5 : 0;
      EXPECT_TRUE(torch::allclose(found[i].cpu(), expected[i], tolerance, tolerance)) << i;
    }
  }
}

TEST(Device, ReplicasShareItsMemory) {
  const auto model = make_on(foreign_device(), kMlp);
  const auto replica = model->replicate();
  EXPECT_EQ(replica->device(), model->device());
  for (std::size_t i = 0; i < model->parameters().size(); ++i)
    EXPECT_EQ(replica->parameters()[i].tensor.unsafeGetTensorImpl()->data(),
              model->parameters()[i].tensor.unsafeGetTensorImpl()->data());
}

TEST(Device, WritesTheSameText) {
  const GenerateOptions options{.length = 20, .temperature = 1, .context = 8};
  const auto text = [&](c10::Device device) {
    return generate_text(*make_on(device, kGpt), "and", options, RandomStream(1, "text")).value();
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
