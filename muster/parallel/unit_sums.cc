#include "muster/parallel/unit_sums.h"

#include <algorithm>
#include <functional>

namespace muster::parallel {

UnitSums::UnitSums(std::span<const std::int64_t> counts) {
  std::size_t end = 0;
  for (const std::int64_t count : counts) {
    begin_.push_back(end);
    end += static_cast<std::size_t>(count);
  }
  begin_.push_back(end);
  floats_.resize(end);
}

void UnitSums::add(std::int32_t, std::int32_t slot, std::span<const float> values,
                   std::int32_t pass, std::int32_t) {
  const auto to =
      floats_.begin() + static_cast<std::ptrdiff_t>(begin_[static_cast<std::size_t>(slot)]);
  if (pass == 0)
    std::copy(values.begin(), values.end(), to);
  else
    std::transform(values.begin(), values.end(), to, to, std::plus<>());
}

void UnitSums::deliver(std::span<const float> floats, std::int32_t unit, GradientSink& to) const {
  for (std::size_t slot = 0; slot + 1 < begin_.size(); ++slot)
    to.add(unit, static_cast<std::int32_t>(slot),
           floats.subspan(begin_[slot], begin_[slot + 1] - begin_[slot]), 0, 1);
}

}  // namespace muster::parallel
