#include "muster/models/positions.h"

#include <vector>

#include "muster/models/context_attention.h"
#include "muster/models/tensor_ops.h"

namespace muster::models {

std::int64_t ranks_of(const ContextGroup* group) noexcept {
  return group == nullptr ? 1 : group->share().size;
}

AxisPart positions_of(std::int64_t whole, const ContextGroup* group) {
  if (group == nullptr) return {whole, {{0, whole}}};
  return {whole, group->attention() == ContextAttention::kRing
                     ? zigzag_positions(whole, group->share())
                     : neighbouring_positions(whole, group->share())};
}

AxisPart positions_between_layers(std::int64_t here, const PassContext& context) {
  if (context.sequences != nullptr)
    return positions_of(here * ranks_of(context.sequences), context.sequences);
  const bool cut = context.group != nullptr && context.group->cuts_sequence();
  const std::int64_t whole = cut ? here * context.group->share().size : here;
  return {whole, {positions_of(whole, context.group)}};
}

torch::Tensor take(const torch::Tensor& whole, std::int64_t axis, const AxisPart& part) {
  std::vector<torch::Tensor> runs;
  runs.reserve(part.runs.size());
  for (const Share run : part.runs) runs.push_back(whole.narrow(axis, run.begin, run.size()));
  return runs.size() == 1 ? runs.front() : torch::cat(runs, axis);
}

}  // namespace muster::models
