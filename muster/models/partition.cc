#include "muster/models/partition.h"

#include "muster/base/check.h"

namespace muster::models {

Share share_of(std::int64_t extent, std::int64_t units, TensorShare share) noexcept {
  if (units <= 0) return even_share(extent, share.size, share.rank);
  const std::int64_t unit = extent / units;
  const Share whole_units = even_share(units, share.size, share.rank);
  return {whole_units.begin * unit, whole_units.end * unit};
}

TensorCut cut_of(const TensorPartition& partition, std::span<const std::int64_t> shape,
                 TensorShare share) {
  TensorCut cut{.whole = {shape.begin(), shape.end()}};
  if (partition.axis() < 0 || share.size == 1) return cut;
  MUSTER_CHECK(partition.stacked == 1 || partition.axis() == 0, "only rows are stacked");
  cut.axis = partition.axis();
  const std::int64_t height = shape[static_cast<std::size_t>(cut.axis)] / partition.stacked;
  const Share own = share_of(height, partition.units / partition.stacked, share);
  for (std::int64_t i = 0; i < partition.stacked; ++i)
    cut.runs.push_back({i * height + own.begin, i * height + own.end});
  return cut;
}

}  // namespace muster::models
