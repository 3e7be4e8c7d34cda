#pragma once
// How a model's tensors may be cut, as plain data: what tensor and sharded strategies read, and
// what a model says about itself without knowing that it is parallel. Pure values, no libtorch.

#include <cstdint>
#include <string>
#include <string_view>

namespace muster::models {

// The roles of Megatron-LM (Shoeybi et al. 2019): a linear layer y = x·Wᵀ + b, W of [out, in].
enum class Split : std::uint8_t {
  kNone,        // every rank holds the whole tensor
  kColumn,      // cut along out (axis 0): each rank computes some outputs; no sum is needed
  kRow,         // cut along in (axis 1): each rank computes a part of every output; sum afterwards
  kVocabulary,  // an embedding [entries, width], cut along entries (axis 0)
};

constexpr std::string_view to_string(Split split) noexcept {
  switch (split) {
    case Split::kNone:
      return "none";
    case Split::kColumn:
      return "column";
    case Split::kRow:
      return "row";
    case Split::kVocabulary:
      return "vocabulary";
  }
  return "";
}

// One tensor's share in the plan. `units`: the tensor may be cut at multiples of its extent / units
// only (heads of an attention layer; 3 · heads for a joint query, key, value); 0 = anywhere.
struct TensorPartition {
  std::string tensor;
  Split split = Split::kNone;
  std::int64_t units = 0;
  // Of a mixture of experts: the index of the expert that the tensor belongs to. Along the mesh's
  // axis `expert` the ranks hold different experts, whole; -1: all ranks of that axis hold it.
  std::int64_t expert = -1;

  // The axis that is cut; -1 when none is.
  constexpr int axis() const noexcept {
    return split == Split::kNone ? -1 : (split == Split::kRow ? 1 : 0);
  }
};

}  // namespace muster::models
