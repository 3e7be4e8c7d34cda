#include "muster/models/create.h"

#include <fmt/format.h>

#include "muster/models/gpt.h"
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

Status check(const GptSpec& spec) {
  MUSTER_TRY(check_positive("model.vocabulary", spec.vocabulary));
  MUSTER_TRY(check_positive("model.context", spec.context));
  MUSTER_TRY(check_positive("model.width", spec.width));
  MUSTER_TRY(check_positive("model.layers", spec.layers));
  MUSTER_TRY(check_positive("model.heads", spec.heads));
  if (spec.width % spec.heads != 0)
    return invalid("model.heads", spec.heads, fmt::format("a divisor of width {}", spec.width));
  return check_dropout(spec.dropout);
}

std::vector<NamedBlock> build(const MlpSpec& spec) { return build_mlp(spec); }
std::vector<NamedBlock> build(const ResNetSpec& spec) { return build_resnet(spec); }
std::vector<NamedBlock> build(const GptSpec& spec) { return build_gpt(spec); }

}  // namespace

std::string_view family_of(const ModelSpec& spec) noexcept {
  constexpr std::string_view kFamilies[] = {"mlp", "resnet", "gpt"};
  return kFamilies[spec.index()];
}

Result<std::unique_ptr<Model>> create_model(const ModelSpec& spec) {
  MUSTER_TRY(std::visit([](const auto& family) { return check(family); }, spec));
  return std::make_unique<Model>(std::string(family_of(spec)), [spec] {
    return std::visit([](const auto& family) { return build(family); }, spec);
  });
}

}  // namespace muster::models
