#include "muster/train/state_pieces.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <span>
#include <string>

namespace muster::train {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

}  // namespace

std::vector<parallel::StateSlice> own_of(std::vector<parallel::StateSlice> state,
                                         parallel::Strategy& strategy) {
  std::set<std::string> shared;
  for (const parallel::StateSlice& slice : strategy.replicated_state()) shared.insert(slice.name);
  std::erase_if(state, [&](const auto& slice) { return shared.contains(slice.name); });
  return state;
}

std::vector<parallel::StateSlice> own_state(parallel::Strategy& strategy) {
  return own_of(state_here(strategy), strategy);
}

std::vector<NamedTensor> cut_into_pieces(const std::vector<parallel::StateSlice>& state) {
  std::vector<NamedTensor> pieces;
  for (const parallel::StateSlice& slice : state) {
    const auto bytes = slice.tensor.bytes;
    for (std::size_t at = 0; at < bytes.size(); at += kPieceBytes) {
      const auto piece = bytes.subspan(at, std::min(kPieceBytes, bytes.size() - at));
      pieces.push_back({slice.name, view_of(std::span(reinterpret_cast<std::uint8_t*>(piece.data()),
                                                      piece.size()))});
    }
  }
  return pieces;
}

}  // namespace muster::train
