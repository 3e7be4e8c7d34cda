#include "muster/job/bind.h"
#include "muster/job/field_table.h"

namespace muster::job {
namespace {

std::vector<Field> family_fields() {
  const OnlyWith mlp{"model.type", {"mlp"}};
  const OnlyWith resnet{"model.type", {"resnet"}};
  const auto in_resnet = [](auto member) {
    return at(&JobSpec::model, &ModelSpec::resnet, member);
  };
  return {
      bind("model.type", at(&JobSpec::model, &ModelSpec::type),
           {.doc = "Model family. Programs of your own may add others (docs/app.md).",
            .required = true}),
      bind("model.classes", at(&JobSpec::model, &ModelSpec::classes),
           {.doc = "Number of classes; labels run from 0 to one less.",
            .min = 2,
            .only_with = OnlyWith{"model.type", {"mlp", "resnet"}}}),
      bind("model.dropout", at(&JobSpec::model, &ModelSpec::dropout),
           {.doc = "Share of activations dropped in training.",
            .unit = kShare,
            .min = 0,
            .below = 1}),
      bind(
          "model.weights", at(&JobSpec::model, &ModelSpec::weights),
          {.doc = "Weights to start from instead of random ones: a safetensors file, a checkpoint, "
                  "or a run, of which the newest whole checkpoint."}),
      bind(
          "model.hidden_sizes", at(&JobSpec::model, &ModelSpec::mlp, &MlpSpec::hidden_sizes),
          {.doc = "Width of each hidden layer; [] is a linear model.", .min = 1, .only_with = mlp}),
      bind("model.channels", in_resnet(&ResnetSpec::channels),
           {.doc = "Channels of each stage; each stage after the first halves the image.",
            .least_entries = 1,
            .min = 1,
            .only_with = resnet}),
      bind("model.blocks_per_stage", in_resnet(&ResnetSpec::blocks_per_stage),
           {.doc = "Residual blocks in each stage.", .min = 1, .max = 100, .only_with = resnet}),
      bind("model.norm", in_resnet(&ResnetSpec::norm),
           {.doc = "Normalisation after each convolution.", .only_with = resnet}),
      bind("model.memory_format", at(&JobSpec::model, &ModelSpec::memory_format),
           {.doc = "Layout of images in memory; auto: channels_last, which was faster on every CPU "
                   "measured.",
            .only_with = resnet}),
  };
}

std::vector<Field> transformer_fields() {
  const OnlyWith text = language_models();
  const auto in = [](auto member) { return at(&JobSpec::model, &ModelSpec::transformer, member); };
  return {
      bind("model.n_layer", in(&TransformerSpec::n_layer),
           {.doc = "Transformer blocks.", .min = 1, .max = 1000, .only_with = text}),
      bind("model.n_head", in(&TransformerSpec::n_head),
           {.doc = "Attention heads of a block.", .min = 1, .only_with = text}),
      bind("model.n_embd", in(&TransformerSpec::n_embd),
           {.doc = "Width of the embedding; a multiple of n_head.", .min = 1, .only_with = text}),
      bind("model.vocab_size", in(&TransformerSpec::vocab_size),
           {.doc = "Number of tokens; text is read as bytes, which need 256.",
            .min = 256,
            .max = 1 << 24,
            .only_with = text}),
      bind("model.intermediate_size", in(&TransformerSpec::intermediate_size),
           {.doc = "Width inside the MLP, or each expert; auto: gpt 4 · n_embd, llama 8/3 · n_embd "
                   "rounded up to a multiple of 32.",
            .min = 1,
            .unset = "auto",
            .only_with = text}),
      bind("model.tie_embeddings", in(&TransformerSpec::tie_embeddings),
           {.doc = "The output layer shares the weights of the token embedding.",
            .default_text = "true for gpt, false for llama; moe: as its body",
            .only_with = text}),
  };
}

std::vector<Field> llama_fields() {
  const OnlyWith llama{"model.type", {"llama", "moe"}};
  const OnlyWith body{"model.body", {"llama"}};  // which it is where there is none to choose
  const auto in = [](auto member) { return at(&JobSpec::model, &ModelSpec::llama, member); };
  return {
      bind("model.n_kv_head", in(&LlamaSpec::n_kv_head),
           {.doc = "Heads of keys and values, a divisor of n_head: fewer of them is grouped-query "
                   "attention, 1 is multi-query attention.",
            .min = 1,
            .default_text = "n_head",
            .only_with = llama,
            .and_with = body}),
      bind("model.rope_theta", in(&LlamaSpec::rope_theta),
           {.doc = "Base of the rotary position embedding's wavelengths.",
            .above = 0,
            .only_with = llama,
            .and_with = body}),
      bind("model.rms_norm_eps", in(&LlamaSpec::rms_norm_eps),
           {.doc = "Added to the mean square in RMSNorm.",
            .above = 0,
            .only_with = llama,
            .and_with = body}),
  };
}

std::vector<Field> moe_fields() {
  const OnlyWith moe{"model.type", {"moe"}};
  const auto in = [](auto member) { return at(&JobSpec::model, &ModelSpec::moe, member); };
  return {
      bind("model.body", in(&MoeSpec::body),
           {.doc = "The family that the mixture of experts is built into.", .only_with = moe}),
      bind("model.num_experts", in(&MoeSpec::num_experts),
           {.doc = "Experts of a layer.", .min = 1, .max = 65536, .only_with = moe}),
      bind("model.num_experts_per_tok", in(&MoeSpec::num_experts_per_tok),
           {.doc = "Experts that a token goes through: 1 as in Switch, 2 as in GShard and Mixtral.",
            .min = 1,
            .only_with = moe}),
      bind("model.decoder_sparse_step", in(&MoeSpec::decoder_sparse_step),
           {.doc = "Which layers have experts: 1 all, 2 every second one, and so on; the others "
                   "have one MLP.",
            .min = 1,
            .only_with = moe}),
      bind("model.expert_capacity_factor", in(&MoeSpec::expert_capacity_factor),
           {.doc = "In training an expert takes so many times its even share of the tokens; the "
                   "rest is dropped there and carried on by the residual connection. none: all are "
                   "computed.",
            .above = 0,
            .unset = "none",
            .only_with = moe}),
      bind("model.router_aux_loss_coef", in(&MoeSpec::router_aux_loss_coef),
           {.doc = "Weight of the load-balance loss, in each layer with experts.",
            .min = 0,
            .only_with = moe}),
      bind("model.router_z_loss_coef", in(&MoeSpec::router_z_loss_coef),
           {.doc = "Weight of the router's z-loss, which keeps its logits small.",
            .min = 0,
            .only_with = moe}),
  };
}

std::vector<Field> lora_fields() {
  const auto in = [](auto member) { return at(&JobSpec::lora, member); };
  return {
      bind("lora.rank", in(&LoraSpec::rank),
           {.doc = "Rank of the adapters, which are then all that is trained; 0: no adapters.",
            .min = 0,
            .max = 65536}),
      bind("lora.alpha", in(&LoraSpec::alpha),
           {.doc = "What an adapter adds is multiplied by alpha / rank.", .above = 0}),
      bind("lora.dropout", in(&LoraSpec::dropout),
           {.doc = "Share of its inputs that an adapter does not see in training.",
            .unit = kShare,
            .min = 0,
            .below = 1}),
      bind(
          "lora.target_modules", in(&LoraSpec::target_modules),
          {.doc = "Patterns for names of the layers that get one, such as [\"*.query\", "
                  "\"*.value\"]. `*` stands for any characters, `?` for one, `[8-12]` for a number "
                  "from 8 to 12; an embedding and the head of a language model get none.",
           .least_entries = 1}),
  };
}

}  // namespace

OnlyWith language_models() { return {"model.type", {"gpt", "llama", "moe"}}; }

std::vector<Field> model_fields() {
  std::vector<Field> table = family_fields();
  for (auto* part : {&transformer_fields, &llama_fields, &moe_fields, &lora_fields}) {
    for (auto& field : part()) table.push_back(std::move(field));
  }
  return table;
}

}  // namespace muster::job
