// What the model needs of its data and of its own numbers.
#include <fmt/format.h>

#include "muster/job/draft.h"
#include "muster/job/enum_names.h"

namespace muster::job {
namespace {

bool reads_text(ModelType type) {
  return type == ModelType::kGpt || type == ModelType::kLlama || type == ModelType::kMoe;
}

void check_data_type(Draft& draft) {
  const auto& spec = draft.spec;
  // What own ones have to do with each other, the program that has them knows.
  if (spec.model.type == ModelType::kOwn) return;
  const bool text = reads_text(spec.model.type);
  if (!text && spec.data.type == DataType::kOwn) return;
  const bool pictures = spec.model.type == ModelType::kResnet && spec.data.type == DataType::kCsv;
  if (text == (spec.data.type == DataType::kText) && !pictures) return;
  draft.complain({"model.type", "data.type"},
                 fmt::format("model {} cannot learn from {} data", to_string(spec.model.type),
                             data_word(spec)),
                 text       ? "set data.type: text"
                 : pictures ? "set model.type: mlp"
                            : "set data.type: idx, images or csv, or model.type: gpt");
}

void resolve_transformer(Draft& draft) {
  auto& model = draft.spec.model;
  if (!draft.given("model.tie_embeddings")) {
    model.transformer.tie_embeddings = !is_llama(model);
    draft.derive("model.tie_embeddings",
                 is_llama(model) ? "for the body of a llama" : "for the body of a gpt");
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

void check_moe(Draft& draft) {
  const auto& model = draft.spec.model;
  if (model.moe.num_experts_per_tok > model.moe.num_experts) {
    draft.complain(
        {"model.num_experts_per_tok", "model.num_experts", "model.type"},
        fmt::format("model.num_experts_per_tok {} is more than model.num_experts {}",
                    draft.shown("model.num_experts_per_tok"), draft.shown("model.num_experts")),
        "a token goes through an expert once");
  }
  if (model.moe.decoder_sparse_step > model.transformer.n_layer) {
    draft.complain(
        {"model.decoder_sparse_step", "model.n_layer", "model.type"},
        fmt::format("model.decoder_sparse_step {} is more than model.n_layer {}: no "
                    "layer would have experts",
                    draft.shown("model.decoder_sparse_step"), draft.shown("model.n_layer")),
        "1 puts experts into every layer, 2 into every second one");
  }
}

// What resolved jobs say without adapters is the default.
void check_lora(Draft& draft) {
  const LoraSpec& lora = draft.spec.lora;
  const LoraSpec usual;
  if (lora.rank > 0) {
    if (lora.target_modules.empty())
      draft.complain({"lora.target_modules", "lora.rank"},
                     "lora.target_modules: without a layer there is nothing to train",
                     "[\"*\"] is all layers");
    return;
  }
  const auto complain = [&](std::string_view field) {
    draft.complain({field, "lora.rank"}, fmt::format("{} needs lora.rank above 0", field),
                   "8 is usual");
  };
  if (lora.alpha != usual.alpha) complain("lora.alpha");
  if (lora.dropout != usual.dropout) complain("lora.dropout");
  if (lora.target_modules != usual.target_modules) complain("lora.target_modules");
}

}  // namespace

bool is_llama(const ModelSpec& model) noexcept {
  return model.type == ModelType::kLlama ||
         (model.type == ModelType::kMoe && model.moe.body == ModelBody::kLlama);
}

void resolve_model(Draft& draft) {
  const auto& model = draft.spec.model;
  check_data_type(draft);
  if (reads_text(model.type)) resolve_transformer(draft);
  if (is_llama(model)) resolve_llama(draft);
  if (model.type == ModelType::kMoe) check_moe(draft);
  check_lora(draft);
  if (model.type == ModelType::kResnet && model.resnet.channels.empty()) {
    draft.complain({"model.channels", "model.type"},
                   "model.channels: a resnet needs at least one stage", "for example [16, 32, 64]");
  }
}

}  // namespace muster::job
