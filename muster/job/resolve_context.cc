// What strategy.type context asks of the model and the data: sequences, and how they can be dealt
// out.
#include <fmt/format.h>

#include <numeric>
#include <string>
#include <string_view>

#include "muster/job/draft.h"
#include "muster/job/enum_names.h"

namespace muster::job {
namespace {

constexpr std::string_view kOtherTypes = "use strategy.type: data or sharded";

std::string_view sharers_field(const Draft& draft) { return axis_field(draft, "strategy.context"); }

void refuse_family(Draft& draft, std::string_view why) {
  draft.complain(
      {"strategy.type", "model.type"},
      fmt::format("strategy.type {} cannot share the sequences of a model of type {}: {}",
                  draft.shown("strategy.type"), model_word(draft.spec), why),
      fmt::format("{}; gpt and llama can share theirs", kOtherTypes));
}

bool check_family(Draft& draft) {
  switch (draft.spec.model.type) {
    case ModelType::kGpt:
    case ModelType::kLlama:
      return true;
    case ModelType::kMoe:
      refuse_family(draft, "how many tokens an expert takes follows from all positions");
      return false;
    case ModelType::kOwn:
      refuse_family(draft, "whether it has some is not known");
      return false;
    case ModelType::kMlp:
    case ModelType::kResnet:
      refuse_family(draft, "it has none");
      return false;
  }
  return false;
}

std::int64_t key_heads(const ModelSpec& model) {
  return model.type == ModelType::kLlama ? model.llama.n_kv_head : model.transformer.n_head;
}

// A number of both that each worker has as many of; where tensors are cut too, of those in a part.
std::int64_t common_heads(const Draft& draft) {
  const ModelSpec& model = draft.spec.model;
  return std::gcd(model.transformer.n_head, key_heads(model)) / draft.spec.strategy.mesh.tensor;
}

// Runs of positions that are dealt out, one or two to a worker.
std::int64_t runs_of(const Draft& draft, std::int64_t workers) {
  return draft.spec.strategy.attention == ContextAttention::kRing ? 2 * workers : workers;
}

bool fits(const Draft& draft, std::int64_t workers) {
  const bool ring = draft.spec.strategy.attention == ContextAttention::kRing;
  return draft.spec.workers.count % workers == 0 &&
         draft.spec.data.context_length % runs_of(draft, workers) == 0 &&
         (ring || common_heads(draft) % workers == 0);
}

// ", or strategy.context: 2, whose other workers are replicas"; empty where only one worker fits.
std::string or_fewer(const Draft& draft) {
  std::int64_t workers = draft.spec.strategy.context - 1;
  while (workers > 1 && !fits(draft, workers)) --workers;
  if (workers <= 1) return {};
  return fmt::format(", or {}: {}, whose other workers are replicas", sharers_field(draft),
                     workers);
}

// A job that does not say takes what sends least.
void choose_attention(Draft& draft) {
  StrategySpec& strategy = draft.spec.strategy;
  if (draft.given("strategy.attention")) return;
  const bool dealt = common_heads(draft) % strategy.context == 0;
  strategy.attention = dealt ? ContextAttention::kUlysses : ContextAttention::kRing;
  draft.derive("strategy.attention",
               fmt::format("heads that {} be dealt to {} {}", dealt ? "can" : "cannot",
                           sharers_field(draft), strategy.context));
}

void check_dealt_heads(Draft& draft, std::string_view field, std::int64_t heads) {
  const StrategySpec& strategy = draft.spec.strategy;
  const std::int64_t parts = strategy.mesh.tensor;
  if (strategy.attention != ContextAttention::kUlysses || heads % (strategy.context * parts) == 0)
    return;
  const std::string_view sharers = sharers_field(draft);
  const std::string of_parts =
      parts == 1 ? "" : " · strategy.mesh.tensor " + draft.shown("strategy.mesh.tensor");
  draft.complain(
      {field, "strategy.attention", sharers, "strategy.type"},
      fmt::format("strategy.attention ulysses: {} {} is no multiple of {} {}{}: each worker has as "
                  "many whole heads",
                  field, draft.shown(field), sharers, draft.shown(sharers), of_parts),
      fmt::format("use strategy.attention: ring{}", or_fewer(draft)));
}

void check_positions(Draft& draft) {
  const StrategySpec& strategy = draft.spec.strategy;
  const std::int64_t runs = runs_of(draft, strategy.context);
  const std::int64_t length = draft.spec.data.context_length;
  if (length % runs == 0) return;
  const bool ring = strategy.attention == ContextAttention::kRing;
  const std::string_view sharers = sharers_field(draft);
  draft.complain(
      {"data.context_length", sharers, "strategy.type"},
      fmt::format("strategy.attention {}: data.context_length {} is no multiple of {}{} {}: each "
                  "worker has {}as many positions of a sequence",
                  to_string(strategy.attention), draft.shown("data.context_length"),
                  ring ? "2 · " : "", sharers, draft.shown(sharers), ring ? "two runs of " : ""),
      fmt::format("use data.context_length: {}{}", multiples_beside(length, runs),
                  or_fewer(draft)));
}

// Both would share sequences out between the layers.
void check_sequence_parallel(Draft& draft) {
  const StrategySpec& strategy = draft.spec.strategy;
  if (!strategy.sequence_parallel || strategy.mesh.tensor == 1) return;
  draft.complain({"strategy.sequence_parallel", sharers_field(draft)},
                 fmt::format("strategy.sequence_parallel and {} {} share the same sequences out",
                             sharers_field(draft), draft.shown(sharers_field(draft))),
                 "remove one of them");
}

}  // namespace

void resolve_context(Draft& draft) {
  if (!check_family(draft)) return;
  choose_attention(draft);
  if (draft.spec.strategy.context == 1) return;
  check_sequence_parallel(draft);
  check_dealt_heads(draft, "model.n_head", draft.spec.model.transformer.n_head);
  if (draft.spec.model.type == ModelType::kLlama &&
      draft.spec.model.llama.n_kv_head != draft.spec.model.transformer.n_head)
    check_dealt_heads(draft, "model.n_kv_head", draft.spec.model.llama.n_kv_head);
  check_positions(draft);
}

}  // namespace muster::job
