#pragma once
// Parts of tensors that are cut over ranks, and where they lie in the whole. Pure values.

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/tensor_view.h"

namespace muster {

// A part of a named tensor: the box of it that begins at `offset`, cut along the first axis and one
// other at most.
struct TensorSlice {
  std::string name;
  TensorView tensor;   // this part
  Shape global_shape;  // of the whole
  Shape offset;        // in elements, by axis
};
std::vector<TensorSlice> whole_slices(const std::vector<NamedTensor>& tensors);

// How a slice lies in the row-major bytes of the whole: `runs` pieces of `length` bytes, `pitch`
// apart; in the slice they follow each other.
struct ByteRuns {
  std::uint64_t first = 0, length = 0, pitch = 0, runs = 0;
  std::uint64_t end() const noexcept {
    return runs == 0 ? first : first + (runs - 1) * pitch + length;
  }
};
ByteRuns runs_of(const TensorSlice& slice);

}  // namespace muster
