#pragma once
// Low-rank adaptation (LoRA, Hu et al. 2022): beside the matrix W of a linear layer lie two thin
// ones, A [rank, in] and B [out, rank]; the layer computes x·Wᵀ + alpha / rank · dropout(x)·Aᵀ·Bᵀ,
// and A and B alone are trained. B is zero at first, so that the model is then what it was without.

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "muster/models/block.h"
#include "muster/models/partition.h"

namespace muster::models {

struct AdapterSpec {
  std::int64_t rank = 0;  // 0: no adapters
  double alpha = 16;
  double dropout = 0;                            // of what A sees, in training
  std::vector<std::string> target_modules{"*"};  // patterns (base/glob.h) for "<block>.<layer>"
};

// What one layer has beside its matrix; nothing until it is attached.
class Adapter {
 public:
  // New parameters of `owner`, called as base/adapter_names.h says: A, uniform in ± 1 / sqrt(in) as
  // in Hugging Face's PEFT, B, and alpha, so that a checkpoint says what they mean.
  // `weight`: the layer's own, "<layer>.weight".
  void attach(Block& owner, const std::string& layer, const BlockParameter& weight,
              const AdapterSpec& spec);
  bool attached() const noexcept { return down_.defined(); }

  // What is added to the layer's output. Where the model is cut over ranks, to this rank's part of
  // it: of a layer that is cut along its inputs, to its addend of the sum. Attached only.
  torch::Tensor operator()(const torch::Tensor& input, const PassContext& context) const;

 private:
  torch::Tensor dropped(const torch::Tensor& input, const PassContext& context) const;
  torch::Tensor mask_of_part(const torch::Tensor& input, const AxisPart& positions,
                             const RandomStream& random, const TensorGroup& group) const;

  torch::Tensor down_;   // [rank, in]
  torch::Tensor up_;     // [out, rank]
  torch::Tensor alpha_;  // [1], not trained
  std::string name_;     // of its random numbers
  std::int64_t in_ = 0;  // of the whole layer
  std::int64_t split_units_ = 0;
  bool row_ = false;  // the layer is cut along its inputs
  double dropout_ = 0;
};

// To every layer of these blocks that the spec targets.
void add_adapters(const std::vector<NamedBlock>& blocks, const AdapterSpec& spec);

// "<block>.<layer>" of all that could have an adapter, in forward order.
std::vector<std::string> adaptable_layers(const std::vector<NamedBlock>& blocks);

}  // namespace muster::models
