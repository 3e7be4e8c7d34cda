#pragma once
// How a model's tensors may be cut, as plain data: what tensor and sharded strategies read, and
// what a model says about itself without knowing that it is parallel. Pure values, no libtorch.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/share.h"

namespace muster::models {

// The roles of Megatron-LM (Shoeybi et al. 2019): a linear layer y = x·Wᵀ + b, W of [out, in].
enum class Split : std::uint8_t {
  kNone,        // every rank holds the whole tensor
  kColumn,      // cut along out (axis 0): each rank computes some outputs; no sum is needed
  kRow,         // cut along in (axis 1): each rank computes a part of every output; sum afterwards
  kVocabulary,  // an embedding [entries, width], cut along entries (axis 0); in the last block the
                // output layer, whose logits are then cut alike
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
  // So many matrices of one height lie one above the other (query, key, value) and are cut one by
  // one, each into its share of the units. Along axis 0 only.
  std::int64_t stacked = 1;
  // Of a mixture of experts: the index of the expert that the tensor belongs to. Along the mesh's
  // axis `expert` the ranks hold different experts, whole; -1: all ranks of that axis hold it.
  std::int64_t expert = -1;
  // Not cut, but multiplied with what is: where tensors are cut, backward finds on each rank an
  // addend of its gradient, and the sum over ranks is still to be made.
  bool has_addends = false;

  // The axis that is cut; -1 when none is.
  constexpr int axis() const noexcept {
    return split == Split::kNone ? -1 : (split == Split::kRow ? 1 : 0);
  }
};

// One of the ranks that hold a model's cut tensors between them.
struct TensorShare {
  std::int32_t rank = 0;
  std::int32_t size = 1;
};

// What that rank has of an axis, of which only whole units can be dealt out; 0: any number.
Share share_of(std::int64_t extent, std::int64_t units, TensorShare share) noexcept;

// What a rank has of an axis: some runs of it, one behind the other.
struct AxisPart {
  std::int64_t whole = 0;
  std::vector<Share> runs = {};
};

// The part of a tensor that one rank holds: of the axis that is cut these runs, one behind the
// other.
struct TensorCut {
  std::vector<std::int64_t> whole = {};  // extents
  int axis = -1;                         // -1: it holds all of it
  std::vector<Share> runs = {};

  bool is_part() const noexcept { return axis >= 0; }
};
TensorCut cut_of(const TensorPartition& partition, std::span<const std::int64_t> shape,
                 TensorShare share);

}  // namespace muster::models
