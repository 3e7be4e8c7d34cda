#pragma once
// What a rank says of the slices it holds: their names and places without their bytes, as CBOR.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "muster/base/result.h"
#include "muster/base/tensor_slice.h"

namespace muster {

std::vector<std::uint8_t> encode_slice_list(const std::vector<TensorSlice>& slices);

// kCorrupt for anything else; the slices have no bytes.
Result<std::vector<TensorSlice>> decode_slice_list(std::span<const std::byte> bytes);

}  // namespace muster
