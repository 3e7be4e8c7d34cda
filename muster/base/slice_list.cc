#include "muster/base/slice_list.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "muster/base/cbor.h"

namespace muster {

using nlohmann::json;

std::vector<std::uint8_t> encode_slice_list(const std::vector<TensorSlice>& slices) {
  json list = json::array();
  for (const TensorSlice& slice : slices)
    list.push_back({slice.name, to_string(slice.tensor.dtype), slice.tensor.shape,
                    slice.global_shape, slice.offset});
  return json::to_cbor(list);
}

Result<std::vector<TensorSlice>> decode_slice_list(std::span<const std::byte> bytes) {
  constexpr int kDeepest = 4;
  std::vector<TensorSlice> slices;
  try {
    const json list = parse_cbor<json>(bytes, kDeepest, Fractions::kRefused);
    for (const json& item : list) {
      const auto dtype = dtype_from_string(item.at(1).get<std::string>());
      if (!dtype) return fail(ErrorCode::kCorrupt, "[base/slice_list] an unknown element type");
      slices.push_back({item.at(0), {*dtype, item.at(2), {}}, item.at(3), item.at(4)});
    }
  } catch (const json::exception& why) {
    return fail(ErrorCode::kCorrupt, fmt::format("[base/slice_list] {}", why.what()));
  }
  return slices;
}

}  // namespace muster
