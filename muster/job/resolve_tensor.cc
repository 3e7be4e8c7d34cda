// What strategy.type tensor asks of the model: what can be cut, and into how many parts.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/norm_groups.h"
#include "muster/job/draft.h"

namespace muster::job {
namespace {

constexpr std::string_view kOthers = "use strategy.type: pipeline or sharded";

std::string_view parts_field(const Draft& draft) { return axis_field(draft, "strategy.tensor"); }

void refuse_model(Draft& draft, std::string_view why) {
  draft.complain({"strategy.type", "model.type"},
                 fmt::format("strategy.type {} cannot cut a model of type {}: {}",
                             draft.shown("strategy.type"), model_word(draft.spec), why),
                 fmt::format("{}; gpt, llama, moe, mlp and resnet can be cut", kOthers));
}

// Largest number of parts, of the divisors of workers.count, into which `units` can be dealt.
std::int64_t nearest_size(const Draft& draft, std::int64_t units, bool evenly) {
  for (std::int64_t size = draft.spec.strategy.tensor; size > 1; --size)
    if (draft.spec.workers.count % size == 0 && (evenly ? units % size == 0 : units >= size))
      return size;
  return 1;
}

std::string advice(const Draft& draft, std::int64_t units, bool evenly) {
  const std::int64_t size = nearest_size(draft, units, evenly);
  if (size == 1) return std::string(kOthers);
  return fmt::format("use {}: {}, whose other workers are replicas, or {}", parts_field(draft),
                     size, kOthers.substr(4));
}

// Heads go to workers whole, and as many to each: all wait for the one that has most.
void check_heads(Draft& draft, std::string_view field, std::int64_t heads) {
  const std::int64_t size = draft.spec.strategy.tensor;
  if (heads % size == 0) return;
  const std::string_view parts = parts_field(draft);
  draft.complain({field, parts, "model.type", "strategy.type"},
                 fmt::format("{} {} is no multiple of {} {}: each worker has as many whole heads",
                             field, draft.shown(field), parts, draft.shown(parts)),
                 advice(draft, heads, true));
}

// What is cut anywhere: shares differ by one at most.
void check_extent(Draft& draft, std::string_view field, std::int64_t extent) {
  if (extent >= draft.spec.strategy.tensor) return;
  const std::string_view parts = parts_field(draft);
  draft.complain({field, parts, "model.type", "strategy.type"},
                 fmt::format("{} {} is less than {} {}: a worker would have none of it", field,
                             extent, parts, draft.shown(parts)),
                 advice(draft, extent, false));
}

void check_decoder(Draft& draft) {
  const ModelSpec& model = draft.spec.model;
  check_heads(draft, "model.n_head", model.transformer.n_head);
  if (is_llama(model) && model.llama.n_kv_head != model.transformer.n_head)
    check_heads(draft, "model.n_kv_head", model.llama.n_kv_head);
  check_extent(draft, "model.vocab_size", model.transformer.vocab_size);
  if (model.transformer.intermediate_size)
    check_extent(draft, "model.intermediate_size", *model.transformer.intermediate_size);
}

// Every second layer is cut along its inputs, which are the outputs of the one before.
void check_mlp(Draft& draft) {
  const auto& widths = draft.spec.model.mlp.hidden_sizes;
  if (widths.empty()) return refuse_model(draft, "without hidden layers there is nothing to cut");
  for (std::size_t i = 0; i < widths.size(); i += 2)
    check_extent(draft, "model.hidden_sizes", widths[i]);
}

// Group norm is one of whole groups, and as many to each worker, as with heads.
void check_groups(Draft& draft, const std::vector<std::int64_t>& channels) {
  const std::int64_t size = draft.spec.strategy.tensor;
  const auto deals_unevenly = [&](std::int64_t width) { return norm_groups(width) % size != 0; };
  const auto width = std::ranges::find_if(channels, deals_unevenly);
  if (width == channels.end()) return;
  std::int64_t groups = 0;
  for (const std::int64_t of_stage : channels) groups = std::gcd(groups, norm_groups(of_stage));
  const std::string_view parts = parts_field(draft);
  draft.complain({"model.channels", parts, "model.norm", "model.type", "strategy.type"},
                 fmt::format("model.norm group has {} groups in {} of model.channels, no multiple "
                             "of {} {}: each worker has as many whole groups",
                             norm_groups(*width), *width, parts, draft.shown(parts)),
                 advice(draft, groups, true) + "; model.norm: batch is cut anywhere");
}

// Of a block the first convolution is cut along its outputs, the second along its inputs; between
// them lie the channels of its stage.
void check_resnet(Draft& draft) {
  const ResnetSpec& resnet = draft.spec.model.resnet;
  if (resnet.channels.empty()) return;  // has been told
  if (resnet.norm == NormKind::kGroup) return check_groups(draft, resnet.channels);
  check_extent(draft, "model.channels", std::ranges::min(resnet.channels));
}

void check_model(Draft& draft) {
  switch (draft.spec.model.type) {
    case ModelType::kResnet:
      return check_resnet(draft);
    case ModelType::kOwn:
      return refuse_model(draft, "how a model of a program's own could be cut is not known");
    case ModelType::kMlp:
      return check_mlp(draft);
    case ModelType::kGpt:
    case ModelType::kLlama:
    case ModelType::kMoe:
      return check_decoder(draft);
  }
}

void check_sequence(Draft& draft) {
  const JobSpec& job = draft.spec;
  const std::string_view parts = parts_field(draft);
  if (!job.strategy.sequence_parallel) return;
  if (job.model.type == ModelType::kMlp || job.model.type == ModelType::kResnet)
    draft.complain({"strategy.sequence_parallel", "model.type", "strategy.type"},
                   fmt::format("strategy.sequence_parallel: a model of type {} has no sequences",
                               model_word(job)),
                   "remove it");
  else if (job.model.type == ModelType::kMoe)
    draft.complain({"strategy.sequence_parallel", "model.type", "strategy.type"},
                   "strategy.sequence_parallel: which tokens an expert of a model of type moe "
                   "takes follows from all positions",
                   "remove it");
  else if (job.data.context_length % job.strategy.tensor != 0)
    draft.complain({"data.context_length", parts, "strategy.type", "data.type"},
                   fmt::format("strategy.sequence_parallel: data.context_length {} is no multiple "
                               "of {} {}",
                               draft.shown("data.context_length"), parts, draft.shown(parts)),
                   "each worker has as many positions of a sequence");
}

}  // namespace

void check_tensor(Draft& draft) {
  if (draft.spec.strategy.tensor == 1) return;
  check_model(draft);
  check_sequence(draft);
}

}  // namespace muster::job
