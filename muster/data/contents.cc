#include "muster/data/contents.h"

namespace muster::data {
namespace {

constexpr std::size_t kPieces = 64;
constexpr std::size_t kPieceBytes = 256 << 10;

}  // namespace

void add_contents(Checksum& sum, std::span<const std::byte> bytes) noexcept {
  if (bytes.size() <= kPieces * kPieceBytes) return sum.add(bytes);
  const std::size_t size = bytes.size();
  sum.add(std::as_bytes(std::span(&size, 1)));
  for (std::size_t piece = 0; piece < kPieces; ++piece)
    sum.add(bytes.subspan((size - kPieceBytes) * piece / (kPieces - 1), kPieceBytes));
}

}  // namespace muster::data
