// What the model needs of its data and of its own numbers.
#include <fmt/format.h>

#include "muster/job/draft.h"
#include "muster/job/enum_names.h"

namespace muster::job {
namespace {

bool reads_text(ModelType type) { return type == ModelType::kGpt || type == ModelType::kLlama; }

void check_data_type(Draft& draft) {
  const auto& spec = draft.spec;
  const bool text = reads_text(spec.model.type);
  if (text == (spec.data.type == DataType::kText)) return;
  draft.complain({"model.type", "data.type"},
                 fmt::format("model {} cannot learn from {} data", to_string(spec.model.type),
                             to_string(spec.data.type)),
                 text ? "set data.type: text" : "set data.type: idx, or model.type: gpt");
}

void resolve_transformer(Draft& draft) {
  auto& model = draft.spec.model;
  if (!draft.given("model.tie_embeddings")) {
    model.transformer.tie_embeddings = model.type != ModelType::kLlama;
    draft.derive("model.tie_embeddings", fmt::format("for {}", to_string(model.type)));
  }
  if (model.transformer.n_embd % model.transformer.n_head != 0) {
    draft.complain({"model.n_embd", "model.n_head", "model.type"},
                   fmt::format("model.n_embd {} is not a multiple of model.n_head {}",
                               draft.shown("model.n_embd"), draft.shown("model.n_head")),
                   "each head takes an equal part of the embedding");
  }
}

void resolve_llama(Draft& draft) {
  auto& model = draft.spec.model;
  const auto& [layers, heads, width, vocabulary, hidden, tied] = model.transformer;
  if (!draft.given("model.n_kv_head")) {
    model.llama.n_kv_head = heads;
    draft.derive("model.n_kv_head", "as n_head");
  }
  if (heads % model.llama.n_kv_head != 0) {
    draft.complain({"model.n_kv_head", "model.n_head", "model.type"},
                   fmt::format("model.n_kv_head {} does not divide model.n_head {}",
                               draft.shown("model.n_kv_head"), draft.shown("model.n_head")),
                   "each head of keys and values serves an equal group of heads");
  }
  if (width % heads == 0 && width / heads % 2 != 0) {
    draft.complain(
        {"model.n_embd", "model.n_head", "model.type"},
        fmt::format("model.n_embd {} / model.n_head {} = {} is odd", draft.shown("model.n_embd"),
                    draft.shown("model.n_head"), width / heads),
        "the rotary position embedding turns pairs of a head's numbers");
  }
}

}  // namespace

void resolve_model(Draft& draft) {
  const auto& model = draft.spec.model;
  check_data_type(draft);
  if (reads_text(model.type)) resolve_transformer(draft);
  if (model.type == ModelType::kLlama) resolve_llama(draft);
  if (model.type == ModelType::kResnet && model.resnet.channels.empty()) {
    draft.complain({"model.channels", "model.type"},
                   "model.channels: a resnet needs at least one stage", "for example [16, 32, 64]");
  }
}

}  // namespace muster::job
