#include "muster/parallel/extras.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/check.h"
#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {
namespace {

constexpr std::size_t kFlagsAt = 2;
constexpr std::size_t kRollAt = kFlagsAt + Flags::size();
constexpr std::size_t kStatisticsAt = kRollAt + data::kRollLimbs;

}  // namespace

std::vector<float> notes_of(const Flags& flags, const data::RollLimbs& roll) {
  std::vector<float> notes(flags.data(), flags.data() + Flags::size());
  notes.insert(notes.end(), roll.begin(), roll.end());
  return notes;
}

std::size_t extra_count(const models::Model& model) {
  std::size_t count = kStatisticsAt;
  for (const models::Statistic& statistic : model.statistics())
    count += static_cast<std::size_t>(statistic.tensor.numel());
  return count;
}

void write_extras(std::vector<float>& extras, const models::Model& model, double loss,
                  double correct, std::span<const float> notes,
                  const std::vector<at::Tensor>& statistics, double share) {
  extras.assign(kStatisticsAt, 0.0f);
  extras[0] = static_cast<float>(loss);
  extras[1] = static_cast<float>(correct);
  std::ranges::copy(notes, extras.begin() + kFlagsAt);
  const auto weight = static_cast<float>(share);
  for (const at::Tensor& statistic : statistics) {
    const at::Tensor on_host = statistic.cpu();
    for (const float value : floats_of(on_host)) extras.push_back(value * weight);
  }
  MUSTER_CHECK(extras.size() == extra_count(model),
               "a block pushed another number of statistics than it registered");
}

void write_empty_extras(std::vector<float>& extras, const models::Model& model,
                        std::span<const float> notes) {
  extras.assign(extra_count(model), 0.0f);
  std::ranges::copy(notes, extras.begin() + kFlagsAt);
}

Status read_extras(std::span<const float> extras, const StepInput& input, StepReport& report) {
  report.loss = extras[0];
  report.accuracy = extras[1];
  std::copy_n(extras.begin() + kFlagsAt, Flags::size(), report.flags.data());
  if (data::total_of(extras.subspan(kRollAt).first<data::kRollLimbs>()) == input.batch.roll)
    return ok();
  return fail(ErrorCode::kInternal,
              fmt::format("[parallel] step {}: the sum of the gradients does not hold every "
                          "sample of the batch exactly once; nothing was updated. Please report it",
                          to_int(input.step)));
}

std::vector<at::Tensor> statistics_in(std::span<float> extras, const models::Model& model) {
  std::vector<at::Tensor> statistics;
  std::span<float> rest = extras.subspan(kStatisticsAt);
  for (const models::Statistic& statistic : model.statistics()) {
    const auto count = static_cast<std::size_t>(statistic.tensor.numel());
    statistics.push_back(tensor_over(view_of(rest.first(count))));
    rest = rest.subspan(count);
  }
  return statistics;
}

}  // namespace muster::parallel
