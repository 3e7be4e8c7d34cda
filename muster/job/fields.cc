#include "muster/job/fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/job/field_table.h"
#include "muster/job/own_fields.h"

namespace muster::job {
namespace {

struct ForeignName {
  std::string_view name;
  std::string_view field;
};

// What Hugging Face, Lightning, torchtitan, axolotl and torchrun call it.
constexpr ForeignName kForeignNames[] = {
    {"lr", "optimizer.learning_rate"},
    {"batch_size", "training.global_batch_size"},
    {"train_batch_size", "training.global_batch_size"},
    {"per_device_train_batch_size", "training.micro_batch_size"},
    {"per_device_eval_batch_size", "evaluation.batch_size"},
    {"num_train_epochs", "training.epochs"},
    {"num_epochs", "training.epochs"},
    {"max_epochs", "training.epochs"},
    {"steps", "training.max_steps"},
    {"grad_clip", "training.max_grad_norm"},
    {"gradient_checkpointing", "training.recompute"},
    {"activation_checkpointing", "training.recompute"},
    {"activation_checkpoint", "training.recompute"},
    {"recompute_granularity", "training.recompute"},
    {"mixed_precision", "training.precision"},
    {"fp16", "training.precision"},
    {"bf16", "training.precision"},
    {"torch_dtype", "training.precision"},
    {"reduce_dtype", "training.reduce_precision"},
    {"mixed_precision_reduce", "training.reduce_precision"},
    {"communication_data_type", "training.reduce_precision"},
    {"mixed_precision_param", "training.precision"},
    {"initial_scale_power", "training.loss_scale.init_scale"},
    {"loss_scale_window", "training.loss_scale.growth_interval"},
    {"min_loss_scale", "training.loss_scale.min_scale"},
    {"gradient_clipping", "training.max_grad_norm"},
    {"label_smoothing_factor", "training.label_smoothing"},
    {"sync_batchnorm", "training.sync_batch_norm"},
    {"sync_bn", "training.sync_batch_norm"},
    {"warmup_steps", "schedule.warmup"},
    {"warmup_ratio", "schedule.warmup"},
    {"lr_scheduler_type", "schedule.type"},
    {"scheduler", "schedule.type"},
    {"eval_steps", "evaluation.every"},
    {"eval_strategy", "evaluation.every"},
    {"save_steps", "checkpoint.every"},
    {"save_total_limit", "checkpoint.keep"},
    {"adam_beta1", "optimizer.beta1"},
    {"adam_beta2", "optimizer.beta2"},
    {"adam_epsilon", "optimizer.epsilon"},
    {"eps", "optimizer.epsilon"},
    {"optim", "optimizer.type"},
    {"num_layers", "model.n_layer"},
    {"num_hidden_layers", "model.n_layer"},
    {"num_heads", "model.n_head"},
    {"num_attention_heads", "model.n_head"},
    {"num_key_value_heads", "model.n_kv_head"},
    {"tie_word_embeddings", "model.tie_embeddings"},
    {"d_model", "model.n_embd"},
    {"hidden_size", "model.hidden_sizes"},
    {"num_local_experts", "model.num_experts"},
    {"capacity_factor", "model.expert_capacity_factor"},
    {"base_model", "model.weights"},
    {"model_name_or_path", "model.weights"},
    {"lora_r", "lora.rank"},
    {"r", "lora.rank"},
    {"lora_alpha", "lora.alpha"},
    {"lora_dropout", "lora.dropout"},
    {"lora_target_modules", "lora.target_modules"},
    {"block_size", "data.context_length"},
    {"sequence_length", "data.context_length"},
    {"num_workers", "data.loader_threads"},
    {"world_size", "workers.count"},
    {"nproc_per_node", "workers.count"},
    {"backend", "communication.engine"},
    {"device_map", "strategy.placement"},
    {"offload_optimizer", "optimizer.offload"},
    {"nvme_path", "optimizer.offload_folder"},
    {"output_dir", "run_folder"},
};

// `hidden` for hidden_sizes: far from it as a misspelling, and yet clear.
std::string only_one_that_begins_with(std::string_view key,
                                      const std::vector<std::string_view>& known) {
  constexpr std::size_t kTooShortToTell = 2;
  if (key.size() <= kTooShortToTell) return {};
  const auto begins = [&](std::string_view word) { return word.starts_with(key); };
  if (std::ranges::count_if(known, begins) != 1) return {};
  return std::string(*std::ranges::find_if(known, begins));
}

}  // namespace

const FieldsPtr& muster_fields() {
  static const FieldsPtr kFields = std::make_shared<const Fields>();
  return kFields;
}

Fields::Fields(OwnComponents own)
    : own_(std::move(own)), sections_(muster_sections()), fields_(field_table()) {
  add_own_choices(fields_, own_);
  add_own_options(fields_, sections_, own_, words_);
}

std::vector<std::string_view> Fields::keys_of(std::string_view section) const {
  std::vector<std::string_view> keys;
  for (const auto* field : of(section)) keys.push_back(field->key());
  for (const auto& known : sections_) {
    const auto dot = known.name.rfind('.');
    const auto parent = dot == std::string_view::npos ? "" : known.name.substr(0, dot);
    if (!known.name.empty() && parent == section) keys.emplace_back(known.name.substr(dot + 1));
  }
  if (section.empty()) keys.emplace_back("quick");
  return keys;
}

std::string Fields::elsewhere(std::string_view section, std::string_view key) const {
  for (const auto& field : fields_) {
    if (field.key() != key || field.section() == section) continue;
    if (field.section().empty()) return fmt::format("`{}` stands at the top level", field.name);
    return fmt::format("`{}` belongs to `{}`", field.key(), field.section());
  }
  return {};
}

const Field* Fields::find(std::string_view name) const {
  const auto found = std::ranges::find(fields_, name, &Field::name);
  return found == fields_.end() ? nullptr : &*found;
}

const Section* Fields::find_section(std::string_view name) const {
  const auto found = std::ranges::find(sections_, name, &Section::name);
  return found == sections_.end() ? nullptr : &*found;
}

std::vector<const Field*> Fields::of(std::string_view section) const {
  std::vector<const Field*> found;
  for (const auto& field : fields_) {
    if (field.section() == section) found.push_back(&field);
  }
  return found;
}

const Field& Fields::first_of(std::string_view section) const {
  return *std::ranges::find_if(fields_, [begin = fmt::format("{}.", section)](const Field& field) {
    return field.name.starts_with(begin);
  });
}

bool Fields::holds(const OnlyWith& condition, const JobSpec& spec) const {
  if (condition.field.empty()) return true;
  const Field& field = *find(condition.field);
  const std::string value = field.print(spec).text;
  return std::ranges::any_of(condition.values, [&](std::string_view wanted) {
    if (field.type != FieldType::kTexts) return value == wanted;
    return value.find(fmt::format("\"{}\"", wanted)) != std::string::npos;
  });
}

std::string Fields::suggestion(std::string_view section, std::string_view key) const {
  const auto full = section.empty() ? std::string(key) : fmt::format("{}.{}", section, key);
  if (find(full)) return "write it as nested keys, one level per line";
  for (const auto& [name, field] : kForeignNames) {
    if (name == key) return fmt::format("muster calls it `{}`", field);
  }
  if (auto help = elsewhere(section, key); !help.empty()) return help;
  const auto near = near_key(section, key);
  return near.empty() ? near : fmt::format("did you mean `{}`?", near);
}

std::string Fields::near_key(std::string_view section, std::string_view key) const {
  const auto known = keys_of(section);
  auto near = near_word(key, known);
  if (near.empty()) near = only_one_that_begins_with(key, known);
  return near == key ? std::string() : near;
}

}  // namespace muster::job
