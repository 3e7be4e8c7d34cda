#pragma once
// The shipped model families, from plain values. Pure apart from allocating; initialise afterwards.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "muster/base/result.h"
#include "muster/models/layers.h"
#include "muster/models/model.h"

namespace muster::models {

// Fully connected layers with ReLU between. Input [n, …] of `inputs` elements a sample.
struct MlpSpec {
  std::int64_t inputs = 784;
  std::vector<std::int64_t> hidden = {128};
  std::int64_t classes = 10;
  double dropout = 0;
};

// The CIFAR-style residual net of He et al. 2016 (§4.2): 3×3 stem, stages of basic blocks, stride 2
// between stages, global average pool, linear head. Input f32 [n, input_channels, height, width].
struct ResNetSpec {
  std::int64_t input_channels = 1;
  std::vector<std::int64_t> channels = {16, 32, 64};  // one stage each
  std::int64_t blocks_per_stage = 1;
  std::int64_t classes = 10;
  NormKind norm = NormKind::kBatch;
  double dropout = 0;         // before the head
  bool channels_last = true;  // memory format of the activations: faster on CPUs, other bits
};

// A byte-level GPT (Radford et al. 2019): learned token and position embeddings, pre-norm blocks,
// causal attention, GELU. Input integers [n, positions <= context].
struct GptSpec {
  std::int64_t vocabulary = 256;
  std::int64_t context = 128;
  std::int64_t width = 128;
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  std::int64_t hidden = 0;  // of the MLP; 0: 4 · width
  double dropout = 0;       // after the embedding and at the end of each residual branch
  bool tied_head = true;    // the head is the token embedding transposed
};

// Llama (Touvron et al. 2023): as gpt, with RMSNorm, rotary position embedding, SwiGLU,
// grouped-query attention, and no biases.
struct LlamaSpec {
  std::int64_t vocabulary = 256;
  std::int64_t context = 128;
  std::int64_t width = 128;
  std::int64_t layers = 4;
  std::int64_t heads = 4;     // width / heads is even
  std::int64_t kv_heads = 0;  // a divisor of heads; 0: as many
  std::int64_t hidden = 0;    // of the MLP; 0: 8/3 · width, rounded up to a multiple of 32
  double rotary_base = 10000;
  double norm_epsilon = 1e-5;
  double dropout = 0;
  bool tied_head = false;
};

// A gpt or llama of which some layers have a mixture of experts (experts.h) as their MLP.
struct MoeSpec {
  std::variant<GptSpec, LlamaSpec> body = LlamaSpec{};
  std::int64_t experts = 8;
  std::int64_t experts_per_token = 2;
  std::int64_t sparse_step = 1;  // every so many layers, the last of them, has experts
  std::optional<double> capacity_factor = {};  // none: no token is dropped
  double balance_loss = 0.01;  // weights of the auxiliary losses, of each such layer
  double z_loss = 0.001;
};

using ModelSpec = std::variant<MlpSpec, ResNetSpec, GptSpec, LlamaSpec, MoeSpec>;

// kInvalid names the field that does not fit and what would.
// With `adapters` the model trains those alone; all else is frozen.
Result<std::unique_ptr<Model>> create_model(const ModelSpec& spec,
                                            const AdapterSpec& adapters = {});

std::string_view family_of(const ModelSpec& spec) noexcept;  // "mlp", "resnet", …

}  // namespace muster::models
