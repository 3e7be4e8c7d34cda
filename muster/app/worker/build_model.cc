#include "muster/app/worker/build_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <utility>

#include "muster/base/check.h"
#include "muster/base/glob.h"
#include "muster/base/scratch_memory.h"
#include "muster/data/step_plan.h"
#include "muster/optim/offloaded_state.h"
#include "muster/parallel/tensor_bridge.h"

namespace muster::app {
namespace {

const Shape& input_shape(const std::vector<data::FieldSpec>& fields) {
  static const Shape kNone;
  const auto input = std::find_if(fields.begin(), fields.end(), [](const data::FieldSpec& field) {
    return field.name == "image" || field.name == "input";
  });
  return input == fields.end() ? kNone : input->shape;
}

models::ModelSpec mlp_spec(const job::ModelSpec& model, const Shape& image) {
  return models::MlpSpec{.inputs = element_count(image),
                         .hidden = model.mlp.hidden_sizes,
                         .classes = model.classes,
                         .dropout = model.dropout};
}

models::NormKind norm_of(job::NormKind norm) {
  switch (norm) {
    case job::NormKind::kGroup:
      return models::NormKind::kGroup;
    case job::NormKind::kNone:
      return models::NormKind::kNone;
    case job::NormKind::kBatch:
      break;
  }
  return models::NormKind::kBatch;
}

models::ModelSpec resnet_spec(const job::ModelSpec& model, const Shape& image) {
  return models::ResNetSpec{.input_channels = image.empty() ? 1 : image.front(),
                            .channels = model.resnet.channels,
                            .blocks_per_stage = model.resnet.blocks_per_stage,
                            .classes = model.classes,
                            .norm = norm_of(model.resnet.norm),
                            .dropout = model.dropout,
                            .channels_last = model.memory_format != job::MemoryFormat::kContiguous};
}

models::GptSpec gpt_spec(const job::ModelSpec& model, std::int64_t context) {
  const job::TransformerSpec& body = model.transformer;
  return {.vocabulary = body.vocab_size,
          .context = context,
          .width = body.n_embd,
          .layers = body.n_layer,
          .heads = body.n_head,
          .hidden = body.intermediate_size.value_or(0),
          .dropout = model.dropout,
          .tied_head = body.tie_embeddings};
}

models::LlamaSpec llama_spec(const job::ModelSpec& model, std::int64_t context) {
  const job::TransformerSpec& body = model.transformer;
  return {.vocabulary = body.vocab_size,
          .context = context,
          .width = body.n_embd,
          .layers = body.n_layer,
          .heads = body.n_head,
          .kv_heads = model.llama.n_kv_head,
          .hidden = body.intermediate_size.value_or(0),
          .rotary_base = model.llama.rope_theta,
          .norm_epsilon = model.llama.rms_norm_eps,
          .dropout = model.dropout,
          .tied_head = body.tie_embeddings};
}

models::MoeSpec moe_spec(const job::ModelSpec& model, std::int64_t context) {
  models::MoeSpec spec{.experts = model.moe.num_experts,
                       .experts_per_token = model.moe.num_experts_per_tok,
                       .sparse_step = model.moe.decoder_sparse_step,
                       .capacity_factor = model.moe.expert_capacity_factor,
                       .balance_loss = model.moe.router_aux_loss_coef,
                       .z_loss = model.moe.router_z_loss_coef};
  if (model.moe.body == job::ModelBody::kGpt)
    spec.body = gpt_spec(model, context);
  else
    spec.body = llama_spec(model, context);
  return spec;
}

models::ModelSpec model_spec(const job::JobSpec& job, const std::vector<data::FieldSpec>& fields) {
  switch (job.model.type) {
    case job::ModelType::kResnet:
      return resnet_spec(job.model, input_shape(fields));
    case job::ModelType::kGpt:
      return gpt_spec(job.model, job.data.context_length);
    case job::ModelType::kLlama:
      return llama_spec(job.model, job.data.context_length);
    case job::ModelType::kMoe:
      return moe_spec(job.model, job.data.context_length);
    case job::ModelType::kOwn:
    case job::ModelType::kMlp:
      break;
  }
  return mlp_spec(job.model, input_shape(fields));
}

models::AdapterSpec adapter_spec(const job::LoraSpec& lora) {
  return {.rank = lora.rank,
          .alpha = lora.alpha,
          .dropout = lora.dropout,
          .target_modules = lora.target_modules};
}

optim::ScheduleKind kind_of(job::ScheduleType type) {
  switch (type) {
    case job::ScheduleType::kLinear:
      return optim::ScheduleKind::kLinear;
    case job::ScheduleType::kCosine:
      return optim::ScheduleKind::kCosine;
    case job::ScheduleType::kOneCycle:
      return optim::ScheduleKind::kOneCycle;
    case job::ScheduleType::kConstant:
      break;
  }
  return optim::ScheduleKind::kConstant;
}

optim::BatchScaling scaling_of(job::BatchScaling scaling) {
  switch (scaling) {
    case job::BatchScaling::kLinear:
      return optim::BatchScaling::kLinear;
    case job::BatchScaling::kSqrt:
      return optim::BatchScaling::kSquareRoot;
    case job::BatchScaling::kNone:
      break;
  }
  return optim::BatchScaling::kNone;
}

optim::OptimizerSpec optimizer_spec(const job::OptimizerSpec& optimizer) {
  switch (optimizer.type) {
    case job::OptimizerType::kSgd:
      return optim::SgdSpec{.momentum = optimizer.momentum,
                            .nesterov = optimizer.nesterov,
                            .weight_decay = optimizer.weight_decay,
                            .decoupled_decay = optimizer.decoupled_weight_decay,
                            .decay_norms_and_biases = optimizer.decay_norm_and_bias};
    case job::OptimizerType::kLars:
      return optim::LarsSpec{.momentum = optimizer.momentum,
                             .weight_decay = optimizer.weight_decay,
                             .trust_coefficient = optimizer.trust_coefficient,
                             .scale_norms_and_biases = optimizer.decay_norm_and_bias};
    case job::OptimizerType::kLamb:
      return optim::LambSpec{.beta1 = optimizer.beta1,
                             .beta2 = optimizer.beta2,
                             .epsilon = optimizer.epsilon,
                             .weight_decay = optimizer.weight_decay,
                             .scale_norms_and_biases = optimizer.decay_norm_and_bias};
    case job::OptimizerType::kAdamW:
      break;
  }
  return optim::AdamWSpec{.beta1 = optimizer.beta1,
                          .beta2 = optimizer.beta2,
                          .epsilon = optimizer.epsilon,
                          .weight_decay = optimizer.weight_decay,
                          .decay_norms_and_biases = optimizer.decay_norm_and_bias};
}

constexpr std::size_t kNamesShown = 40;

// The first that matches; none: nullptr.
const job::ParameterGroup* group_of(const job::OptimizerSpec& optimizer, std::string_view name) {
  for (const job::ParameterGroup& group : optimizer.groups)
    if (matches_any(group.match, name)) return &group;
  return nullptr;
}

std::vector<std::string> names_of(const std::vector<models::Parameter>& parameters) {
  std::vector<std::string> names;
  names.reserve(parameters.size());
  for (const models::Parameter& parameter : parameters) names.push_back(parameter.name);
  return names;
}

std::vector<std::string> names_of(const std::vector<models::NamedBlock>& blocks) {
  std::vector<std::string> names;
  names.reserve(blocks.size());
  for (const models::NamedBlock& block : blocks) names.push_back(block.name);
  return names;
}

struct Named {
  std::string_view what;  // in the singular
  std::vector<std::string> names;
};

// A pattern that matches nothing is a slip of the pen.
Status check_patterns(std::string_view field, const std::vector<std::string>& patterns,
                      const Named& all) {
  const std::vector<std::string>& names = all.names;
  for (const std::string& pattern : patterns) {
    if (std::ranges::any_of(names, [&](const auto& name) { return matches(pattern, name); }))
      continue;
    const auto shown = std::span(names).first(std::min(names.size(), kNamesShown));
    const std::size_t more = names.size() - shown.size();
    return fail(ErrorCode::kInvalid,
                fmt::format("[job] {}: no {} has a name like `{}`; there are {}{}", field, all.what,
                            pattern, fmt::join(shown, ", "),
                            more > 0 ? fmt::format(" and {} more", more) : ""));
  }
  return ok();
}

// Their names are known only now that the model is there.
Status freeze(models::Model& model, const std::vector<std::string>& patterns) {
  MUSTER_TRY(
      check_patterns("training.freeze", patterns, {"parameter", names_of(model.parameters())}));
  model.freeze(
      [&](const models::Parameter& parameter) { return matches_any(patterns, parameter.name); });
  if (!model.parameters().empty()) return ok();
  return fail(ErrorCode::kInvalid,
              "[job] training.freeze leaves nothing to train; some parameters must not match");
}

Status check_adapters(const models::Model& model, const job::LoraSpec& lora) {
  if (lora.rank == 0) return ok();
  return check_patterns("lora.target_modules", lora.target_modules,
                        {"layer", models::adaptable_layers(model.blocks())});
}

Status recompute(models::Model& model, const std::vector<std::string>& patterns) {
  MUSTER_TRY(check_patterns("training.recompute", patterns, {"block", names_of(model.blocks())}));
  model.recompute([&](const std::string& block) { return matches_any(patterns, block); });
  return ok();
}

// Of muster's own models the job file has been refused already.
Status check_batch_norm(const models::Model& model, const job::TrainingSpec& training) {
  if (!training.sync_batch_norm || model.has_batch_norm()) return ok();
  return fail(ErrorCode::kInvalid,
              fmt::format("[job] training.sync_batch_norm: no block of {} has batch norm "
                          "(models::BatchNorm); remove it",
                          model.family()));
}

Status check_groups(const models::Model& model, const job::OptimizerSpec& optimizer) {
  for (const job::ParameterGroup& group : optimizer.groups)
    MUSTER_TRY(check_patterns("optimizer.groups", group.match,
                              {"parameter", names_of(model.parameters())}));
  return ok();
}

data::StepPlan plan_of(const job::TrainingSpec& training, std::int64_t epoch_size) {
  return data::StepPlan({.epoch_size = epoch_size,
                         .batch = training.global_batch_size,
                         .slices = static_cast<std::int32_t>(training.virtual_workers)});
}

models::Precision precision_of(job::Precision precision) {
  switch (precision) {
    case job::Precision::kBF16:
      return models::Precision::kBF16;
    case job::Precision::kFP16:
      return models::Precision::kF16;
    case job::Precision::kF32:
      break;
  }
  return models::Precision::kF32;
}

}  // namespace

models::Compute compute_of(const job::TrainingSpec& training) {
  return {.precision = precision_of(training.precision)};
}

Result<std::unique_ptr<models::Model>> build_model(const job::JobSpec& job,
                                                   const std::vector<data::FieldSpec>& fields,
                                                   const ComponentsPtr& own) {
  MUSTER_ASSIGN(auto model,
                job.model.type == job::ModelType::kOwn
                    ? make_model(own, job, fields)
                    : models::create_model(model_spec(job, fields), adapter_spec(job.lora)));
  MUSTER_TRY(give_measures(*own, job, *model));
  model->smooth_labels(job.training.label_smoothing);
  MUSTER_TRY(check_adapters(*model, job.lora));
  MUSTER_TRY(freeze(*model, job.training.freeze));
  MUSTER_TRY(recompute(*model, job.training.recompute));
  MUSTER_TRY(check_batch_norm(*model, job.training));
  MUSTER_TRY(check_groups(*model, job.optimizer));
  return model;
}

void fill(models::Model& model, const std::vector<TensorSlice>& state) {
  const auto load = [&](const std::string& name, const at::Tensor& into) {
    const auto found = std::ranges::find(state, name, &TensorSlice::name);
    MUSTER_CHECK(found != state.end(), name + " is not in the state");
    into.detach().copy_(parallel::tensor_over(found->tensor));
  };
  for (const auto* parameters : {&model.parameters(), &model.frozen()})
    for (const models::Parameter& parameter : *parameters) load(parameter.name, parameter.tensor);
  for (const models::Statistic& statistic : model.statistics())
    load(statistic.name, statistic.tensor);
}

Result<std::unique_ptr<optim::Optimizer>> build_optimizer(
    const job::JobSpec& job, std::vector<optim::OptimizedParameter> parameters,
    const Path& scratch) {
  for (optim::OptimizedParameter& parameter : parameters) {
    const job::ParameterGroup* group = group_of(job.optimizer, parameter.name);
    if (!group) continue;
    parameter.rate_factor = group->learning_rate_factor;
    parameter.weight_decay = group->weight_decay;
  }
  const optim::AverageSpec average{.decay = job.ema.decay, .warmup = job.ema.warmup};
  const optim::OptimizerSpec spec = optimizer_spec(job.optimizer);
  if (job.optimizer.offload == job::OffloadKind::kNone || scratch.empty())
    return optim::create_optimizer(spec, std::move(parameters), average);
  auto memory = create_scratch_memory(scratch);
  if (!memory) return with_context(std::move(memory).error(), "[job] optimizer.offload_folder");
  auto optimizer =
      optim::create_optimizer(spec, std::move(parameters), average,
                              std::make_shared<optim::OffloadedState>(std::move(*memory)));
  if (optimizer) return optimizer;
  return with_context(std::move(optimizer).error(), "[job] optimizer.offload_folder");
}

train::TrainingLength training_length(const job::TrainingSpec& training, std::int64_t epoch_size) {
  const std::int64_t per_epoch = plan_of(training, epoch_size).steps_per_epoch();
  std::int64_t steps = training.max_steps.value_or(training.epochs.value_or(1) * per_epoch);
  if (training.epochs) steps = std::min(steps, *training.epochs * per_epoch);
  return {.total_steps = steps, .steps_per_epoch = per_epoch};
}

Result<optim::ScheduleSpec> build_schedule(const job::JobSpec& job,
                                           const train::TrainingLength& length,
                                           std::int64_t epoch_size) {
  const data::StepPlan plan = plan_of(job.training, epoch_size);
  const auto per_epoch = static_cast<double>(length.steps_per_epoch);
  const std::int64_t warmup = job.schedule.warmup.steps(length.total_steps, per_epoch);
  const double peak = optim::scale_learning_rate(
      scaling_of(job.schedule.scale_with_batch), job.optimizer.learning_rate,
      job.training.global_batch_size, job.schedule.base_batch_size);
  optim::ScheduleSpec spec{.kind = kind_of(job.schedule.type),
                           .learning_rate = peak,
                           .total_samples = plan.at(Step{length.total_steps}).samples_seen,
                           .warmup_samples = plan.at(Step{warmup}).samples_seen,
                           .final_ratio = job.schedule.final_ratio};
  if (warmup > length.total_steps) {
    return fail(ErrorCode::kInvalid,
                fmt::format("[job] schedule.warmup is {} steps, the whole training only {}: the "
                            "peak would never be reached; shorten the one or lengthen the other",
                            warmup, length.total_steps));
  }
  if (spec.kind == optim::ScheduleKind::kOneCycle) {  // the warm-up is its rising part
    spec.rise_fraction =
        static_cast<double>(spec.warmup_samples) / static_cast<double>(spec.total_samples);
    spec.warmup_samples = 0;
  }
  MUSTER_TRY(optim::validate(spec));
  return spec;
}

}  // namespace muster::app
