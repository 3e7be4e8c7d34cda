#pragma once
// Where a lane's gradients go, slot by slot, as backward finishes them.

#include <cstdint>
#include <span>

namespace muster::parallel {

class GradientSink {
 public:
  virtual ~GradientSink() = default;
  // The gradient of `slot` in `unit`; a unit of several passes adds each slot once a pass, in
  // order.
  virtual void add(std::int32_t unit, std::int32_t slot, std::span<const float> values,
                   std::int32_t pass, std::int32_t passes) = 0;
};

}  // namespace muster::parallel
