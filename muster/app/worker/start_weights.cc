#include "muster/app/worker/start_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "muster/base/adapter_names.h"
#include "muster/checkpoint/weights.h"

namespace muster::app {
namespace {

// Adapters count where both have some.
Status check_surplus(const checkpoint::Weights& weights, const std::vector<std::string>& whole) {
  for (const checkpoint::TensorRecord& record : weights.tensors) {
    if (std::ranges::find(whole, record.name) != whole.end()) continue;
    const std::string_view advice =
        is_adapter(record.name)
            ? "an adapter that this job does not have; merge it first (muster checkpoint export "
              "--merge), or have the same under `lora`"
            : "which this job's model does not have; give the same fields under `model`";
    return fail(ErrorCode::kInvalid, fmt::format("[job] model.weights: {} holds `{}`, {}",
                                                 weights.place.native(), record.name, advice));
  }
  return ok();
}

bool has_adapters(const checkpoint::Weights& weights) {
  return std::ranges::any_of(weights.tensors,
                             [](const auto& record) { return is_adapter(record.name); });
}

// The average of a parameter, under the parameter's name: it begins with the same values.
std::vector<parallel::StateSlice> averages(parallel::Strategy& strategy) {
  constexpr std::string_view kBegin = "optimizer/", kEnd = "/ema";
  std::vector<parallel::StateSlice> found;
  for (parallel::StateSlice& slice : strategy.optimizer_state()) {
    const std::string_view name = slice.name;
    if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) continue;
    slice.name = name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size());
    found.push_back(std::move(slice));
  }
  return found;
}

using Alphas = std::map<std::string, float>;  // by the name of the adapter's tensor

Alphas alphas_of(const std::vector<parallel::StateSlice>& state) {
  Alphas found;
  for (const parallel::StateSlice& slice : state)
    if (slice.name.ends_with(kAdapterAlpha)) found[slice.name] = slice.tensor.as<float>().front();
  return found;
}

// What adapters were trained with comes with them; a job that says something else would not get it.
Status check_alphas(const Alphas& wanted, const Alphas& found) {
  const auto other = std::ranges::find_if(
      wanted, [&](const auto& alpha) { return found.at(alpha.first) != alpha.second; });
  if (other == wanted.end()) return ok();
  return fail(
      ErrorCode::kInvalid,
      fmt::format("[job] lora.alpha is {:g}, but `{}` of model.weights is {:g}: adapters go "
                  "on with the scale that they were trained with; set lora.alpha={:g}, or "
                  "merge them first (muster checkpoint export --merge)",
                  other->second, other->first, found.at(other->first), found.at(other->first)));
}

}  // namespace

std::vector<std::string> tensor_names(const models::Model& model) {
  std::vector<std::string> names;
  for (const auto* parameters : {&model.parameters(), &model.frozen()})
    for (const models::Parameter& parameter : *parameters) names.push_back(parameter.name);
  for (const models::Statistic& statistic : model.statistics()) names.push_back(statistic.name);
  return names;
}

Status start_from_weights(Files& files, const job::ModelSpec& model,
                          const std::vector<std::string>& whole, parallel::Strategy& strategy) {
  if (model.weights.empty()) return ok();
  const auto found = checkpoint::find_weights(files, model.weights);
  if (!found)
    return with_context(found.error(),
                        "[job] model.weights wants a .safetensors file, a checkpoint or a run");
  const checkpoint::Weights& weights = *found;
  MUSTER_TRY(check_surplus(weights, whole));
  const Alphas asked = alphas_of(strategy.model_state());
  for (auto& target : {strategy.model_state(), averages(strategy)}) {
    std::vector<parallel::StateSlice> wanted = target;
    if (!has_adapters(weights))
      std::erase_if(wanted, [](const auto& slice) { return is_adapter(slice.name); });
    MUSTER_TRY(checkpoint::read_weights(files, weights, wanted));
  }
  MUSTER_TRY(check_alphas(asked, alphas_of(strategy.model_state())));
  strategy.loaded(0);
  return ok();
}

}  // namespace muster::app
