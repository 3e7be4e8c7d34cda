#include "muster/data/hold_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "muster/base/check.h"
#include "muster/base/units.h"
#include "muster/data/sampler.h"

namespace muster::data {
namespace {

class Subset final : public Source {
 public:
  Subset(SourcePtr whole, std::vector<std::int64_t> indices)
      : whole_(std::move(whole)), indices_(std::move(indices)) {}

  std::int64_t size() const noexcept override { return std::ssize(indices_); }
  const std::vector<FieldSpec>& fields() const noexcept override { return whole_->fields(); }
  Status read(std::int64_t index, std::span<const TensorView> into) const override {
    return whole_->read(indices_[static_cast<std::size_t>(index)], into);
  }

 private:
  SourcePtr whole_;
  std::vector<std::int64_t> indices_;
};

}  // namespace

Result<Parts> hold_out(std::int64_t size, double fraction) {
  MUSTER_CHECK(size >= 0 && fraction >= 0 && fraction <= 1, "a share of some samples");
  const std::int64_t held = std::llround(fraction * static_cast<double>(size));
  if (held == 0 || held == size)
    return fail(ErrorCode::kInvalid,
                fmt::format("[data/hold_out] data.validation_split {}% of {} leaves none for {}; "
                            "change it, or name other data in data.validation_path",
                            100 * fraction, counted(size, "sample"),
                            held == 0 ? "validation" : "training"));
  const Permutation order(size, RandomStream(0, "hold out"));
  Parts parts;
  for (std::int64_t position = 0; position < size; ++position)
    (position < held ? parts.validation : parts.training).push_back(order(position));
  std::ranges::sort(parts.validation);
  std::ranges::sort(parts.training);
  return parts;
}

SourcePtr subset(SourcePtr whole, std::vector<std::int64_t> indices) {
  MUSTER_CHECK(whole != nullptr, "a subset needs a source");
  return std::make_shared<Subset>(std::move(whole), std::move(indices));
}

}  // namespace muster::data
