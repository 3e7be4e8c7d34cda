#include "tests/ranks/ranks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <thread>

namespace muster::comm {
namespace {

using Encoding = std::array<std::array<std::byte, 8>, 256>;

std::uint16_t half_of(int number) {  // whole numbers below 256 are exact
  if (number == 0) return 0;
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(number));
  return static_cast<std::uint16_t>((bits >> 13) - (112U << 10));
}

template <class T>
void store(std::array<std::byte, 8>& into, T value) {
  std::memcpy(into.data(), &value, sizeof value);
}

Encoding encode(DType dtype) {
  Encoding table{};
  for (int i = 0; i < 256; ++i) {
    auto& into = table[static_cast<std::size_t>(i)];
    switch (dtype) {
      case DType::kF16:
        store(into, half_of(i));
        break;
      case DType::kBF16:
        store(into, static_cast<std::uint16_t>(
                        std::bit_cast<std::uint32_t>(static_cast<float>(i)) >> 16));
        break;
      case DType::kF32:
        store(into, static_cast<float>(i));
        break;
      case DType::kF64:
        store(into, static_cast<double>(i));
        break;
      case DType::kI32:
        store(into, static_cast<std::int32_t>(i));
        break;
      case DType::kI64:
        store(into, static_cast<std::int64_t>(i));
        break;
      case DType::kU8:
        store(into, static_cast<std::uint8_t>(i));
        break;
    }
  }
  return table;
}

}  // namespace

void on_every_rank(const Ranks& ranks, const std::function<void(Communicator&)>& body) {
  std::vector<std::thread> threads;
  for (const auto& rank : ranks) threads.emplace_back([&body, rank] { body(*rank); });
  for (std::thread& thread : threads) thread.join();
}

int number_at(std::int32_t rank, std::int64_t place, int salt) noexcept {
  auto mixed = static_cast<std::uint64_t>(place) * 0x9E3779B97F4A7C15ULL +
               static_cast<std::uint64_t>(rank * 31 + salt) * 0xD1B54A32D192ED03ULL;
  mixed ^= mixed >> 29;
  mixed *= 0xBF58476D1CE4E5B9ULL;
  return static_cast<int>(mixed >> 60);  // [0, 16)
}

int contribution(Reduce reduce, std::int32_t rank, std::int32_t size, std::int64_t place) {
  const int number = number_at(rank, place, static_cast<int>(reduce));
  if (reduce == Reduce::kProduct) return number == 7 ? 2 : 1;
  if (reduce == Reduce::kSum || reduce == Reduce::kAvg) return size * (number % 4);
  return number;
}

int reduced(Reduce reduce, std::int32_t size, std::int64_t place) {
  int result = contribution(reduce, 0, size, place);
  for (std::int32_t rank = 1; rank < size; ++rank) {
    const int other = contribution(reduce, rank, size, place);
    switch (reduce) {
      case Reduce::kSum:
      case Reduce::kAvg:
        result += other;
        break;
      case Reduce::kMin:
        result = std::min(result, other);
        break;
      case Reduce::kMax:
        result = std::max(result, other);
        break;
      case Reduce::kProduct:
        result *= other;
        break;
    }
  }
  if (reduce == Reduce::kAvg) result /= size;
  return std::min(result, 255);
}

Values::Values(DType dtype, Shape shape)
    : dtype_(dtype),
      shape_(std::move(shape)),
      bytes_(static_cast<std::size_t>(element_count(shape_)) * size_of(dtype)) {}

Values Values::filled(DType dtype, Shape shape, const std::function<int(std::int64_t)>& number) {
  Values values(dtype, std::move(shape));
  const Encoding table = encode(dtype);
  const std::size_t width = size_of(dtype);
  for (std::size_t i = 0; i * width < values.bytes_.size(); ++i)
    std::memcpy(values.bytes_.data() + i * width,
                table[static_cast<std::size_t>(number(static_cast<std::int64_t>(i)))].data(),
                width);
  return values;
}

TensorView Values::view() { return {dtype_, shape_, bytes_}; }

std::int64_t Values::differences(const Values& expected) const {
  if (bytes_ == expected.bytes_) return 0;
  const std::size_t width = size_of(dtype_);
  std::int64_t different = bytes_.size() == expected.bytes_.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(bytes_.size(), expected.bytes_.size()); i += width)
    different += std::memcmp(bytes_.data() + i, expected.bytes_.data() + i, width) != 0;
  return different;
}

}  // namespace muster::comm
