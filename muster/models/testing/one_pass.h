#pragma once
// One pass of a small model of any family, and all that comes of it.

#include <torch/csrc/autograd/autograd.h>

#include <memory>
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
