// oracle_steps MODEL OPTIMIZER DTYPE FOLDER: trains a small model for 20 steps the way the data
// strategy does on one lane (slices, sums in tree order, statistics merged over slices) and writes
// what Python's PyTorch needs to do the same: initial.safetensors, data.safetensors,
// final.safetensors.

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include <cstdio>
#include <map>
#include <span>

#include "muster/base/files.h"
#include "muster/checkpoint/safetensors.h"
#include "muster/models/create.h"
#include "muster/optim/clip.h"
#include "muster/optim/optimizer.h"

namespace {

using namespace muster;
using Tensors = std::vector<std::pair<std::string, torch::Tensor>>;

constexpr std::int64_t kSteps = 20;
constexpr std::int64_t kSlices = 5;
constexpr double kMaxNorm = 1.0;  // with AdamW; the runs' norms cross it

struct Case {
  models::ModelSpec model;
  models::AdapterSpec adapters = {};
  optim::OptimizerSpec optimizer;
  double learning_rate = 0;
  torch::ScalarType dtype = torch::kFloat32;  // of the weights
  models::Precision precision = models::Precision::kF32;
  torch::Tensor inputs;   // [kSteps, batch, …]
  torch::Tensor targets;  // [kSteps, batch, …]
};

torch::Tensor normal(torch::IntArrayRef shape, std::string_view name) {
  auto values = torch::empty(shape);
  models::initialize(values, {models::InitKind::kNormal, 1}, 1, name);
  return values;
}

// Noise with a bright square whose place tells the class.
void add_images(Case& task) {
  constexpr std::int64_t kBatch = 23;  // slices of 5, 5, 5, 4, 4
  task.targets = torch::arange(kSteps * kBatch).mul(7).remainder(10).view({kSteps, kBatch});
  task.inputs = normal({kSteps, kBatch, 1, 28, 28}, "images").mul_(0.3).to(task.dtype);
  for (std::int64_t step = 0; step < kSteps; ++step)
    for (std::int64_t i = 0; i < kBatch; ++i) {
      const auto label = task.targets[step][i].item<std::int64_t>();
      task.inputs[step][i][0].narrow(0, 4 * (label / 5) + 6, 6).narrow(1, 4 * (label % 5) + 2, 6) +=
          1;
    }
}

void add_text(Case& task) {
  constexpr std::int64_t kBatch = 11;
  constexpr std::int64_t kContext = 32;
  const auto count = kSteps * kBatch * (kContext + 1);
  const auto walk = torch::arange(count).mul(torch::arange(count).div(97, "floor") + 3);
  const auto text = walk.remainder(61).add(60).view({kSteps, kBatch, kContext + 1});
  task.inputs = text.narrow(2, 0, kContext).to(torch::kUInt8).contiguous();
  task.targets = text.narrow(2, 1, kContext).contiguous();
}

std::optional<models::ModelSpec> text_model(const std::string& name) {
  const models::GptSpec gpt{.context = 32, .width = 64, .layers = 2};
  const models::LlamaSpec llama{.context = 32, .width = 64, .layers = 2, .kv_heads = 2};
  if (name == "gpt" || name == "lora") return gpt;
  if (name == "llama") return llama;
  if (name == "moe") return models::MoeSpec{.body = llama, .experts = 5};
  if (name == "switch")
    return models::MoeSpec{.body = gpt,
                           .experts = 4,
                           .experts_per_token = 1,
                           .sparse_step = 2,
                           .capacity_factor = 0.8};
  return std::nullopt;
}

Case make_case(const std::string& model, const std::string& optimizer, const std::string& dtype) {
  Case task;
  if (dtype == "f64") task.dtype = torch::kFloat64;
  if (dtype == "bf16") task.precision = models::Precision::kBF16;
  // Adam divides by the gradient's own size: with the usual epsilon, a gradient of pure rounding
  // noise would move its weight by a full learning rate, and the comparison would measure that.
  if (optimizer == "adamw")
    task.optimizer =
        optim::AdamWSpec{.epsilon = 1e-5, .weight_decay = 0.1, .decay_norms_and_biases = false};
  if (optimizer == "lamb")
    task.optimizer =
        optim::LambSpec{.epsilon = 1e-5, .weight_decay = 0.1, .scale_norms_and_biases = false};
  if (optimizer == "lars")
    task.optimizer = optim::LarsSpec{
        .weight_decay = 5e-4, .trust_coefficient = 0.1, .scale_norms_and_biases = false};
  if (optimizer == "sgd") task.optimizer = optim::SgdSpec{.nesterov = true, .weight_decay = 5e-4};
  task.learning_rate = std::map<std::string, double>{
      {"sgd", 0.02},
      {"adamw", 1e-3},
      {"lars", 0.02},
      {"lamb", 0.01}}.at(optimizer);
  if (model == "lora") task.adapters = {.rank = 4, .target_modules = {"*.qkv", "layer1.*"}};
  if (const auto text = text_model(model)) {
    task.model = *text;
    add_text(task);
    return task;
  }
  if (model == "mlp")
    task.model = models::MlpSpec{.hidden = {64, 32}};
  else
    task.model = models::ResNetSpec{.channels_last = model == "resnet_channels_last"};
  add_images(task);
  return task;
}

struct Sums {
  std::vector<torch::Tensor> gradients;   // of the mean loss over the global batch
  std::vector<torch::Tensor> statistics;  // weighted by samples
  double loss = 0;
};

Sums run_slice(models::Model& model, const Case& task, std::int64_t step, std::int64_t slice) {
  const std::int64_t batch = task.inputs.size(1);
  const std::int64_t size = batch / kSlices + (slice < batch % kSlices ? 1 : 0);
  const std::int64_t begin = slice * (batch / kSlices) + std::min(slice, batch % kSlices);
  const double share = static_cast<double>(size) / static_cast<double>(batch);
  Sums sums;
  models::PassContext context{.random = RandomStream(1, "forward", step, slice),
                              .statistics = &sums.statistics,
                              .auxiliary_weight = share,
                              .compute = {.precision = task.precision}};
  const auto logits = model.forward(task.inputs[step].narrow(0, begin, size), context);
  const auto loss = model.loss_sum(logits, task.targets[step].narrow(0, begin, size));
  const auto mean = loss.sum / static_cast<double>(task.targets[step].numel());
  const auto parameters = model.parameter_tensors();
  sums.gradients = torch::autograd::grad({mean}, parameters, {}, std::nullopt, false,
                                         /*allow_unused=*/true);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    auto& gradient = sums.gradients[i];  // undefined: an expert without a token
    gradient = gradient.defined() ? gradient.contiguous() : torch::zeros_like(parameters[i]);
  }
  for (auto& statistic : sums.statistics) statistic.mul_(share);
  sums.loss = mean.item<double>();
  return sums;
}

void add(Sums& left, const Sums& right) {
  for (std::size_t i = 0; i < left.gradients.size(); ++i)
    left.gradients[i].add_(right.gradients[i]);
  for (std::size_t i = 0; i < left.statistics.size(); ++i)
    left.statistics[i].add_(right.statistics[i]);
  left.loss += right.loss;
}

Sums run_batch(models::Model& model, const Case& task, std::int64_t step) {
  std::vector<Sums> slices;
  for (std::int64_t slice = 0; slice < kSlices; ++slice)
    slices.push_back(run_slice(model, task, step, slice));
  for (std::size_t stride = 1; stride < slices.size(); stride *= 2)
    for (std::size_t i = 0; i + stride < slices.size(); i += 2 * stride)
      add(slices[i], slices[i + stride]);
  return std::move(slices.front());
}

double gradient_norm(const Sums& sums) {
  std::vector<double> squares;
  for (const auto& gradient : sums.gradients) squares.push_back(optim::squared_norm(gradient));
  return optim::global_norm(squares);
}

Tensors weights_of(const models::Model& model) {
  Tensors tensors;
  for (const auto* parameters : {&model.parameters(), &model.frozen()})
    for (const auto& p : *parameters) tensors.emplace_back(p.name, p.tensor.detach().clone());
  for (const auto& s : model.statistics()) tensors.emplace_back(s.name, s.tensor.clone());
  return tensors;
}

DType dtype_of(const torch::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case torch::kFloat64:
      return DType::kF64;
    case torch::kInt64:
      return DType::kI64;
    case torch::kUInt8:
      return DType::kU8;
    default:
      return DType::kF32;
  }
}

Status write(const Path& path, const Tensors& tensors) {
  std::vector<NamedTensor> views;
  for (const auto& [name, tensor] : tensors)
    views.push_back({name,
                     {dtype_of(tensor),
                      tensor.sizes().vec(),
                      {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()}}});
  MUSTER_ASSIGN(auto file, system_files().open(path, Files::Open::kTruncate));
  const std::string header = checkpoint::encode_safetensors_header(views, {{"format", "pt"}});
  MUSTER_TRY(file->append(std::as_bytes(std::span(header))));
  for (const auto& view : views) MUSTER_TRY(file->append(view.tensor.bytes));
  return file->close();
}

Status train(const Case& task, const Path& folder) {
  MUSTER_ASSIGN(auto model, models::create_model(task.model, task.adapters));
  model->initialize(1);
  for (const auto* all : {&model->parameters(), &model->frozen()})
    for (const auto& p : *all) p.tensor.set_data(p.tensor.detach().to(task.dtype));
  for (const auto& s : model->statistics()) s.tensor.set_data(s.tensor.to(task.dtype));
  std::vector<optim::OptimizedParameter> parameters;
  for (const auto& p : model->parameters()) parameters.push_back({p.name, p.tensor, p.decays});
  MUSTER_ASSIGN(auto optimizer, optim::create_optimizer(task.optimizer, parameters));
  MUSTER_TRY(write(folder / "initial.safetensors", weights_of(*model)));
  MUSTER_TRY(write(folder / "data.safetensors",
                   {{"inputs", task.inputs.contiguous()},
                    {"targets", task.targets},
                    {"learning_rate", torch::tensor({task.learning_rate}, torch::kFloat64)}}));
  const bool clips = std::holds_alternative<optim::AdamWSpec>(task.optimizer);
  auto losses = torch::empty({kSteps}, torch::kFloat64), norms = torch::empty_like(losses);
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const Sums sums = run_batch(*model, task, step);
    const double norm = gradient_norm(sums);
    losses[step] = sums.loss;
    norms[step] = norm;
    optimizer->begin_step(task.learning_rate);
    optimizer->update({0, optimizer->size()}, sums.gradients,
                      1 / optim::clip_scale(norm, clips ? kMaxNorm : 0));
    if (!sums.statistics.empty()) model->apply_statistics(sums.statistics);
  }
  auto final = weights_of(*model);
  final.emplace_back("losses", losses);
  final.emplace_back("norms", norms);
  return write(folder / "final.safetensors", final);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fputs("usage: oracle_steps MODEL OPTIMIZER DTYPE FOLDER\n", stderr);
    return 2;
  }
  at::set_num_threads(1);
  const auto status = train(make_case(argv[1], argv[2], argv[3]), argv[4]);
  if (!status) std::fprintf(stderr, "%s\n", status.error().message.c_str());
  return status ? 0 : 1;
}
