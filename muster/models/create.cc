#include "muster/models/create.h"

#include <fmt/format.h>

#include "muster/base/adapter_names.h"
#include "muster/models/decoder.h"
#include "muster/models/mlp.h"
#include "muster/models/resnet.h"

namespace muster::models {
namespace {

Error invalid(std::string_view field, const auto& value, std::string_view wanted) {
  return fail(ErrorCode::kInvalid,
              fmt::format("[models/create] {} is {}; it must be {}", field, value, wanted));
}

Status check_positive(std::string_view field, std::int64_t value) {
  if (value < 1) return invalid(field, value, "at least 1");
  return ok();
}

Status check_dropout(double value) {
  if (!(value >= 0 && value < 1)) return invalid("model.dropout", value, "in [0, 1)");
  return ok();
}

Status check(const MlpSpec& spec) {
  MUSTER_TRY(check_positive("model.inputs", spec.inputs));
  for (const auto width : spec.hidden) MUSTER_TRY(check_positive("model.hidden", width));
  MUSTER_TRY(check_positive("model.classes", spec.classes));
  return check_dropout(spec.dropout);
}

Status check(const ResNetSpec& spec) {
  MUSTER_TRY(check_positive("model.input_channels", spec.input_channels));
  if (spec.channels.empty()) return invalid("model.channels", "empty", "one width per stage");
  for (const auto width : spec.channels) MUSTER_TRY(check_positive("model.channels", width));
  MUSTER_TRY(check_positive("model.blocks_per_stage", spec.blocks_per_stage));
  MUSTER_TRY(check_positive("model.classes", spec.classes));
  return check_dropout(spec.dropout);
}

// What gpt and llama have in common.
Status check_decoder(const auto& spec) {
  MUSTER_TRY(check_positive("model.vocabulary", spec.vocabulary));
  MUSTER_TRY(check_positive("model.context", spec.context));
  MUSTER_TRY(check_positive("model.width", spec.width));
  MUSTER_TRY(check_positive("model.layers", spec.layers));
  MUSTER_TRY(check_positive("model.heads", spec.heads));
  if (spec.hidden < 0) return invalid("model.hidden", spec.hidden, "0 (a default) or more");
  if (spec.width % spec.heads != 0)
    return invalid("model.heads", spec.heads, fmt::format("a divisor of width {}", spec.width));
  return check_dropout(spec.dropout);
}

Status check(const GptSpec& spec) { return check_decoder(spec); }

Status check(const LlamaSpec& spec) {
  MUSTER_TRY(check_decoder(spec));
  if (spec.kv_heads < 0 || (spec.kv_heads > 0 && spec.heads % spec.kv_heads != 0))
    return invalid("model.kv_heads", spec.kv_heads,
                   fmt::format("a divisor of heads {}", spec.heads));
  if (spec.width / spec.heads % 2 != 0)
    return invalid("model.heads", spec.heads,
                   fmt::format("such that width {} / heads is even (rotary pairs)", spec.width));
  if (!(spec.rotary_base > 0)) return invalid("model.rotary_base", spec.rotary_base, "above 0");
  if (!(spec.norm_epsilon > 0)) return invalid("model.norm_epsilon", spec.norm_epsilon, "above 0");
  return ok();
}

Status check(const MoeSpec& spec) {
  MUSTER_TRY(std::visit([](const auto& body) { return check(body); }, spec.body));
  MUSTER_TRY(check_positive("model.experts", spec.experts));
  if (spec.experts_per_token < 1 || spec.experts_per_token > spec.experts)
    return invalid("model.experts_per_token", spec.experts_per_token,
                   fmt::format("from 1 to experts {}", spec.experts));
  const std::int64_t layers = std::visit([](const auto& body) { return body.layers; }, spec.body);
  if (spec.sparse_step < 1 || spec.sparse_step > layers)
    return invalid("model.sparse_step", spec.sparse_step,
                   fmt::format("from 1 to layers {}", layers));
  if (spec.capacity_factor && !(*spec.capacity_factor > 0))
    return invalid("model.capacity_factor", *spec.capacity_factor, "above 0");
  if (!(spec.balance_loss >= 0))
    return invalid("model.balance_loss", spec.balance_loss, "0 or more");
  if (!(spec.z_loss >= 0)) return invalid("model.z_loss", spec.z_loss, "0 or more");
  return ok();
}

Status check(const AdapterSpec& spec) {
  if (spec.rank < 0) return invalid("lora.rank", spec.rank, "0 (none) or more");
  if (!(spec.alpha > 0)) return invalid("lora.alpha", spec.alpha, "above 0");
  if (!(spec.dropout >= 0 && spec.dropout < 1))
    return invalid("lora.dropout", spec.dropout, "in [0, 1)");
  return ok();
}

std::vector<NamedBlock> build(const MlpSpec& spec) { return build_mlp(spec); }
std::vector<NamedBlock> build(const ResNetSpec& spec) { return build_resnet(spec); }
std::vector<NamedBlock> build(const GptSpec& spec) { return build_decoder(spec); }
std::vector<NamedBlock> build(const LlamaSpec& spec) { return build_decoder(spec); }
std::vector<NamedBlock> build(const MoeSpec& spec) { return build_decoder(spec); }

}  // namespace

std::string_view family_of(const ModelSpec& spec) noexcept {
  constexpr std::string_view kFamilies[] = {"mlp", "resnet", "gpt", "llama", "moe"};
  return kFamilies[spec.index()];
}

Result<std::unique_ptr<Model>> create_model(const ModelSpec& spec, const AdapterSpec& adapters) {
  MUSTER_TRY(std::visit([](const auto& family) { return check(family); }, spec));
  MUSTER_TRY(check(adapters));
  auto model = std::make_unique<Model>(std::string(family_of(spec)), [spec, adapters] {
    const auto blocks = std::visit([](const auto& family) { return build(family); }, spec);
    add_adapters(blocks, adapters);
    return blocks;
  });
  if (adapters.rank > 0)
    model->freeze([](const Parameter& parameter) { return !is_trained_adapter(parameter.name); });
  return model;
}

}  // namespace muster::models
