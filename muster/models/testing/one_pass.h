#pragma once
// One pass of a small model of any family, and all that comes of it. For tests.

#include <torch/csrc/autograd/autograd.h>

#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "muster/models/create.h"

namespace muster::models {

inline bool reads_text(const ModelSpec& spec) {
  return !std::holds_alternative<MlpSpec>(spec) && !std::holds_alternative<ResNetSpec>(spec);
}

// Five samples.
inline torch::Tensor inputs_of(const ModelSpec& spec) {
  if (reads_text(spec)) return (torch::arange(5 * 8) * 7 % 251).view({5, 8}).to(torch::kUInt8);
  return torch::sin(torch::arange(5 * 144, torch::kFloat32) * 0.37F).view({5, 1, 12, 12});
}

inline torch::Tensor targets_of(const ModelSpec& spec) {
  if (reads_text(spec)) return (torch::arange(5 * 8) * 3 % 251).view({5, 8});
  return torch::arange(5) % 10;
}

inline std::unique_ptr<Model> make(const ModelSpec& spec) {
  auto model = create_model(spec).value();
  model->initialize(1);
  return model;
}

// Which pass: of what model, in what precision, with what of the model frozen.
struct PassCase {
  ModelSpec model;
  Precision precision = Precision::kF32;
  std::string frozen = {};  // the block whose parameters are
};
inline void PrintTo(const PassCase& task, std::ostream* out) {
  constexpr std::string_view kNames[] = {"", " bf16", " fp16"};
  *out << family_of(task.model) << kNames[static_cast<int>(task.precision)] << " " << task.frozen;
}

inline std::unique_ptr<Model> make(const PassCase& task) {
  auto model = make(task.model);
  model->freeze([&](const Parameter& parameter) {
    return !task.frozen.empty() && parameter.name.starts_with(task.frozen + ".");
  });
  return model;
}

inline const ModelSpec kMlp = MlpSpec{.inputs = 144, .hidden = {32, 16, 16}, .dropout = 0.1};
inline const ModelSpec kResNet =
    ResNetSpec{.channels = {8, 16}, .dropout = 0.1, .channels_last = true};
inline const ModelSpec kGpt =
    GptSpec{.context = 8, .width = 32, .layers = 3, .heads = 2, .dropout = 0.1};
inline const ModelSpec kLlama =
    LlamaSpec{.context = 8, .width = 32, .layers = 3, .heads = 2, .kv_heads = 1, .dropout = 0.1};

struct Pass {
  torch::Tensor logits;
  LossSum loss;
  std::vector<torch::Tensor> gradients;
  std::vector<torch::Tensor> statistics;
};

inline Pass run(Model& model, const ModelSpec& spec, Precision precision = Precision::kF32) {
  Pass pass;
  PassContext context{.training = true,
                      .random = RandomStream(1, "forward"),
                      .statistics = &pass.statistics,
                      .auxiliary_weight = 1,
                      .compute = {.precision = precision}};
  pass.logits = model.forward(inputs_of(spec), context);
  pass.loss = model.loss_sum(pass.logits, targets_of(spec));
  if (pass.loss.sum.requires_grad())
    pass.gradients = torch::autograd::grad({pass.loss.sum}, model.parameter_tensors());
  return pass;
}

}  // namespace muster::models
