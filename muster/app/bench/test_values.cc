#include "muster/app/bench/test_values.h"

#include "muster/comm/small_floats.h"

namespace muster::app {

double sum_at(std::int64_t i) noexcept { return static_cast<double>(1 + i % 5); }

double summand(std::int32_t rank, std::int32_t ranks, std::int64_t i) noexcept {
  return (i + rank) % ranks == 0 ? sum_at(i) : 0;
}

double word(std::int32_t from, std::int32_t to, std::int64_t i) noexcept {
  return static_cast<double>((31 * std::int64_t{from} + 17 * std::int64_t{to} + i) % 97);
}

void put(const TensorView& tensor, std::int64_t i, double value) noexcept {
  const auto at = static_cast<std::size_t>(i);
  const auto narrow = static_cast<float>(value);
  if (tensor.dtype == DType::kF64) tensor.as<double>()[at] = value;
  if (tensor.dtype == DType::kF32) tensor.as<float>()[at] = narrow;
  if (tensor.dtype == DType::kF16) tensor.as<std::uint16_t>()[at] = comm::Half::store(narrow);
  if (tensor.dtype == DType::kBF16) tensor.as<std::uint16_t>()[at] = comm::BFloat::store(narrow);
}

double get(const TensorView& tensor, std::int64_t i) noexcept {
  const auto at = static_cast<std::size_t>(i);
  if (tensor.dtype == DType::kF64) return tensor.as<double>()[at];
  if (tensor.dtype == DType::kF32) return tensor.as<float>()[at];
  const std::uint16_t stored = tensor.as<std::uint16_t>()[at];
  return tensor.dtype == DType::kF16 ? comm::Half::load(stored) : comm::BFloat::load(stored);
}

}  // namespace muster::app
