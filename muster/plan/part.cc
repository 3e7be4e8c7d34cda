#include "muster/plan/part.h"

#include <algorithm>

namespace muster::plan {
namespace {

std::uint64_t largest_gradient(const BlockProfile& block) {
  std::int64_t most = 0;
  for (const auto* parameters : {&block.trained, &block.experts})
    for (const std::int64_t elements : *parameters) most = std::max(most, elements);
  return static_cast<std::uint64_t>(most) * kFloat;
}

}  // namespace

bool Part::has(std::int32_t block) const {
  return std::ranges::any_of(
      ranges_, [&](const auto& range) { return block >= range.begin && block < range.end; });
}

std::vector<std::int64_t> Part::slot_counts() const {
  std::int64_t notes = profile_.notes;
  std::vector<std::int64_t> counts{0};
  each([&](const BlockProfile& block, std::size_t) { notes += block.statistics; });
  for (auto range = ranges_.rbegin(); range != ranges_.rend(); ++range)
    for (std::int32_t b = range->end; b-- > range->begin;) {
      const auto& own = profile_.blocks[static_cast<std::size_t>(b)].trained;
      counts.insert(counts.end(), own.rbegin(), own.rend());
    }
  counts.front() = notes;
  return counts;
}

std::uint64_t Part::weights() const {
  std::int64_t elements = 0;
  each([&](const BlockProfile& block, std::size_t) {
    elements += block.held_elements() + block.frozen + block.statistics;
  });
  each_borrowed([&](const TiedParameter& tied) { elements += tied.elements; });
  return static_cast<std::uint64_t>(elements) * kFloat;
}

std::uint64_t Part::optimizer() const {
  std::uint64_t bytes = 0;
  each([&](const BlockProfile& block, std::size_t) { bytes += block.optimizer_bytes; });
  return bytes;
}

std::uint64_t Part::statistics() const {
  std::int64_t elements = 0;
  each([&](const BlockProfile& block, std::size_t) { elements += block.statistics; });
  return static_cast<std::uint64_t>(elements) * kFloat;
}

std::int64_t Part::trained() const {
  std::int64_t elements = 0;
  each([&](const BlockProfile& block, std::size_t) { elements += block.held_elements(); });
  return elements;
}

std::vector<std::int64_t> Part::expert_slot_counts() const {
  std::vector<std::int64_t> counts;
  each([&](const BlockProfile& block, std::size_t) {
    counts.insert(counts.end(), block.experts.begin(), block.experts.end());
  });
  counts.push_back(1);  // nothing, but never of 16 bits
  std::ranges::reverse(counts);
  return counts;
}

layout::ChunkCost Part::cost() const {
  Duration forward{}, backward{}, waiting{};
  std::uint64_t output = 0;
  each([&](const BlockProfile&, std::size_t b) {
    const BlockPass& block = pass_.blocks[b];
    const BlockWaits waits = waits_ ? (*waits_)[b] : BlockWaits{};
    forward += block.forward + waits.forward;
    backward += block.backward + (recomputed(b) ? block.forward : Duration{});
    waiting += waits.backward;
    output = block.output_bytes;
  });
  return {forward, backward - backward / 2 + waiting, backward / 2, output};
}

std::uint64_t Part::kept() const {
  std::uint64_t bytes = 0;
  each([&](const BlockProfile&, std::size_t b) {
    bytes += recomputed(b) ? pass_.blocks[b].output_bytes : pass_.blocks[b].activation_bytes;
  });
  return bytes;
}

std::uint64_t Part::recomputing() const {
  std::uint64_t most = 0;
  each([&](const BlockProfile&, std::size_t b) {
    if (recomputed(b)) most = std::max(most, pass_.blocks[b].activation_bytes);
  });
  return most;
}

BriefMemory Part::in_hand() const {
  BriefMemory most;
  std::uint64_t piece = 0;
  each([&](const BlockProfile& block, std::size_t b) {
    const std::uint64_t largest = largest_gradient(block), all = pass_.blocks[b].backward_bytes;
    if (largest >= kMappedBytes) {
      most.goes_back = std::max(most.goes_back, all);
      return;
    }
    most.stays = std::max(most.stays, all);
    piece = std::max(piece, std::min(largest, all));
  });
  most.stays += piece;
  return most;
}

BriefMemory Part::counting() const {
  BriefMemory most;
  each([&](const BlockProfile& block, std::size_t b) {
    const std::uint64_t largest = largest_gradient(block), all = pass_.blocks[b].backward_bytes;
    const std::uint64_t others =
        static_cast<std::uint64_t>(block.held_elements()) * kFloat - largest;
    const bool is_mapped = largest >= kMappedBytes;
    most.stays = std::max(most.stays, is_mapped ? others : others + all);
    if (is_mapped) most.goes_back = std::max(most.goes_back, all);
  });
  return most;
}

}  // namespace muster::plan
