#include "muster/comm/narrow.h"

#include <cstdint>

#include "muster/base/check.h"
#include "muster/comm/small_floats.h"

namespace muster::comm {
namespace {

template <class Body>
void with_element(DType dtype, Body body) {
  MUSTER_DCHECK(size_of(dtype) == 2, "a type of 16 bits");
  if (dtype == DType::kF16)
    body(Half{});
  else
    body(BFloat{});
}

}  // namespace

void narrow(DType dtype, std::span<const float> values, std::byte* out) noexcept {
  with_element(dtype, [&](auto element) {
    auto* to = reinterpret_cast<std::uint16_t*>(out);
    for (std::size_t i = 0; i < values.size(); ++i) to[i] = element.store(values[i]);
  });
}

void widen(DType dtype, const std::byte* values, std::span<float> out) noexcept {
  with_element(dtype, [&](auto element) {
    const auto* from = reinterpret_cast<const std::uint16_t*>(values);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = element.load(from[i]);
  });
}

void round_to(DType dtype, std::span<float> values) noexcept {
  with_element(dtype, [&](auto element) {
    for (float& value : values) value = element.load(element.store(value));
  });
}

}  // namespace muster::comm
