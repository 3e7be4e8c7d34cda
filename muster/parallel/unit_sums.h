#pragma once
// The gradients of a single unit, slot after slot in one piece of memory. One thread.

#include <cstdint>
#include <span>
#include <vector>

#include "muster/parallel/gradient_sink.h"

namespace muster::parallel {

class UnitSums final : public GradientSink {
 public:
  // `counts`: floats of each slot.
  explicit UnitSums(std::span<const std::int64_t> counts);

  void add(std::int32_t unit, std::int32_t slot, std::span<const float> values, std::int32_t pass,
           std::int32_t passes) override;
  std::span<float> floats() noexcept { return floats_; }

  // Hands `floats`, as another rank has them, on as one pass of `unit`.
  void deliver(std::span<const float> floats, std::int32_t unit, GradientSink& to) const;

 private:
  std::vector<std::size_t> begin_;  // by slot, and the end of the last
  std::vector<float> floats_;
};

}  // namespace muster::parallel
