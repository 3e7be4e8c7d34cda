#include "muster/parallel/gradient_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "muster/base/check.h"
#include "muster/base/checksum.h"
#include "muster/comm/narrow.h"

namespace muster::parallel {
namespace {

std::vector<comm::LeafRange> parts_of(const ExchangeOptions& options, Rank rank) {
  if (options.tree) return options.tree->parts(rank);
  if (options.units == 0) return {};
  return {comm::LeafRange{0, options.units}};
}

std::int64_t most_rows(const ExchangeOptions& options) {
  std::int32_t most = 1;
  for (std::int32_t rank = 0; options.tree && rank < options.tree->size(); ++rank)
    most = std::max(most, options.tree->rows(Rank{rank}));
  return most;
}

}  // namespace

Result<std::unique_ptr<GradientExchange>> GradientExchange::create(
    std::shared_ptr<comm::Communicator> communicator, std::span<const std::int64_t> counts,
    const ExchangeOptions& options) {
  BucketLayout layout = plan_buckets(counts, options.bucket_sizes);
  std::vector<comm::Buffer> buffers;
  for (std::size_t b = 0; b < layout.sizes.size(); ++b) {
    const auto elements = static_cast<std::size_t>(layout.sizes[b] * most_rows(options));
    MUSTER_ASSIGN(comm::Buffer buffer,
                  communicator->allocate(elements * size_of(layout.dtypes[b])));
    buffers.push_back(std::move(buffer));
  }
  std::vector<comm::LeafRange> parts = parts_of(options, communicator->group().rank);
  return std::unique_ptr<GradientExchange>(new GradientExchange(
      std::move(communicator), options, std::move(layout), std::move(buffers), std::move(parts)));
}

GradientExchange::GradientExchange(std::shared_ptr<comm::Communicator> communicator,
                                   ExchangeOptions options, BucketLayout layout,
                                   std::vector<comm::Buffer> buffers,
                                   std::vector<comm::LeafRange> parts)
    : communicator_(std::move(communicator)),
      options_(std::move(options)),
      listens_(parts.empty()),
      rows_(std::max(1, static_cast<std::int32_t>(parts.size()))),
      buffers_(std::move(buffers)),
      wide_(layout.sizes.size()),
      ready_(layout.sizes.size()),
      timeout_(options_.op.timeout) {
  std::vector<std::span<float>> rows;
  rows.reserve(buffers_.size());
  for (std::size_t b = 0; b < buffers_.size(); ++b) {
    const auto floats = static_cast<std::size_t>(layout.sizes[b] * rows_);
    if (layout.dtypes[b] != DType::kF32) wide_[b].resize(floats);
    rows.emplace_back(rows_in(b), floats);
  }
  kept_ = {parts, std::vector<std::vector<float>>(buffers_.size())};
  accumulator_ =
      std::make_unique<TreeAccumulator>(std::move(layout), std::move(parts), std::move(rows),
                                        [this](std::int32_t b) { bucket_ready(b); });
}

GradientExchange::~GradientExchange() = default;

void GradientExchange::begin(std::optional<Duration> timeout) {
  const std::lock_guard lock(mutex_);
  timeout_ = timeout.value_or(options_.op.timeout);
  std::fill(ready_.begin(), ready_.end(), false);
  next_ = 0;
  works_.clear();
  accumulator_->begin();
  if (listens_) submit_all();
}

// In fast mode a worker without units adds zeros.
void GradientExchange::submit_all() {
  for (std::size_t bucket = 0; bucket < ready_.size(); ++bucket) {
    const auto b = static_cast<std::int32_t>(bucket);
    if (!options_.tree) std::ranges::fill(rows(b), 0.0F);
    submit(b);
  }
  next_ = ready_.size();
}

void GradientExchange::add(std::int32_t unit, std::int32_t slot, std::span<const float> values,
                           std::int32_t pass, std::int32_t passes) {
  accumulator_->add(unit, slot, values, pass, passes);
}

void GradientExchange::seed(const KeptSums& kept) {
  const BucketLayout& layout = accumulator_->layout();
  for (std::size_t b = 0; b < kept.buckets.size(); ++b) {
    const auto size = static_cast<std::size_t>(layout.sizes[b]);
    for (std::size_t part = 0; part < kept.parts.size(); ++part) {
      accumulator_->seed(kept.parts[part], static_cast<std::int32_t>(b),
                         std::span(kept.buckets[b]).subspan(part * size, size));
    }
  }
}

float* GradientExchange::rows_in(std::size_t bucket) {
  auto& wide = wide_[bucket];
  return wide.empty() ? reinterpret_cast<float*>(buffers_[bucket]->data()) : wide.data();
}

std::span<float> GradientExchange::rows(std::int32_t bucket) {
  const auto b = static_cast<std::size_t>(bucket);
  return {rows_in(b), static_cast<std::size_t>(accumulator_->layout().sizes[b] * rows_)};
}

void GradientExchange::keep(std::int32_t bucket) {
  const std::span<const float> own = rows(bucket);
  kept_.buckets[static_cast<std::size_t>(bucket)].assign(own.begin(), own.end());
}

bool GradientExchange::kept_is_finite() const {
  return std::ranges::all_of(kept_.buckets, [](const std::vector<float>& bucket) {
    return std::ranges::all_of(bucket, [](float value) { return std::isfinite(value); });
  });
}

void GradientExchange::bucket_ready(std::int32_t bucket) {
  if (options_.keeps) keep(bucket);
  const std::lock_guard lock(mutex_);
  ready_[static_cast<std::size_t>(bucket)] = true;
  for (; next_ < ready_.size() && ready_[next_]; ++next_) submit(static_cast<std::int32_t>(next_));
}

std::shared_ptr<const comm::Shards> GradientExchange::shards_of(std::int32_t bucket) const {
  return options_.shards.empty() ? nullptr : options_.shards[static_cast<std::size_t>(bucket)];
}

GradientExchange::Part GradientExchange::own_part(std::int32_t bucket) const {
  const Rank rank = communicator_->group().rank;
  if (const auto shards = shards_of(bucket))
    return {shards->begin_of(rank), shards->count_of(rank)};
  return {0, accumulator_->layout().sizes[static_cast<std::size_t>(bucket)]};
}

// As the communicator has it: every row, of which the sum is in the first.
TensorView GradientExchange::summands(std::int32_t bucket) const {
  const auto b = static_cast<std::size_t>(bucket);
  const BucketLayout& layout = accumulator_->layout();
  const auto bytes = static_cast<std::size_t>(layout.sizes[b] * rows_) * size_of(layout.dtypes[b]);
  return {layout.dtypes[b], {rows_, layout.sizes[b]}, buffers_[b]->first(bytes)};
}

TensorView GradientExchange::own_sum(std::int32_t bucket) const {
  const TensorView all = summands(bucket);
  const auto [begin, count] = own_part(bucket);
  const std::size_t each = size_of(all.dtype);
  return {all.dtype,
          {count},
          all.bytes.subspan(static_cast<std::size_t>(begin) * each,
                            static_cast<std::size_t>(count) * each)};
}

TensorView GradientExchange::some_of(std::int32_t bucket, Part part) {
  const std::span<float> some = rows(bucket).subspan(static_cast<std::size_t>(part.begin),
                                                     static_cast<std::size_t>(part.count));
  return {DType::kF32, {part.count}, std::as_writable_bytes(some)};
}

void GradientExchange::submit(std::int32_t bucket) {
  comm::OpOptions op = options_.op;
  op.label = fmt::format("gradients/{}", bucket);
  op.timeout = timeout_;
  const TensorView view = summands(bucket);
  if (is_narrow(bucket)) comm::narrow(view.dtype, rows(bucket), view.bytes.data());
  const auto shards = shards_of(bucket);
  works_.push_back(shards ? communicator_->submit(comm::ReduceScatter{.output = own_sum(bucket),
                                                                      .input = view,
                                                                      .reduce = comm::Reduce::kSum,
                                                                      .shards = shards,
                                                                      .tree = options_.tree},
                                                  op)
                          : communicator_->submit(comm::AllReduce{.buffer = view,
                                                                  .reduce = comm::Reduce::kSum,
                                                                  .tree = options_.tree},
                                                  op));
}

Status GradientExchange::gather(comm::Communicator& ranks, const Gathered& gathered) {
  const Rank me = ranks.group().rank;
  std::vector<comm::Work> works;
  for (std::size_t b = 0; b < gathered.shards.size(); ++b) {
    const auto& shards = gathered.shards[b];
    if (!shards) continue;
    const auto bucket = static_cast<std::int32_t>(b);
    const std::int64_t begin = gathered.begins.empty() ? 0 : gathered.begins[b];
    comm::OpOptions op = options_.op;
    op.label = fmt::format("{}/{}", gathered.label, bucket);
    works.push_back(ranks.submit(
        comm::AllGather{
            .output = some_of(bucket, {begin, shards->count()}),
            .input = some_of(bucket, {begin + shards->begin_of(me), shards->count_of(me)}),
            .shards = shards},
        op));
  }
  return comm::wait_for_all(works);
}

bool GradientExchange::wait_until(Clock& clock, TimePoint until) {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(works_,
                             [&](const comm::Work& work) { return work.wait_until(clock, until); });
}

Status GradientExchange::finish() {
  std::vector<comm::Work> works;
  {
    const std::lock_guard lock(mutex_);
    MUSTER_CHECK(next_ == ready_.size(), "every slot of every unit was added");
    works.swap(works_);
  }
  MUSTER_TRY(comm::wait_for_all(works));  // the buffers must be at rest before they are reused
  for (std::size_t b = 0; b < buffers_.size(); ++b) widen_sum(static_cast<std::int32_t>(b));
  return ok();
}

void GradientExchange::widen_sum(std::int32_t bucket) {
  if (!is_narrow(bucket)) return;
  const TensorView sum = own_sum(bucket);
  const TensorView to = some_of(bucket, own_part(bucket));
  comm::widen(sum.dtype, sum.bytes.data(),
              {reinterpret_cast<float*>(to.bytes.data()), static_cast<std::size_t>(to.shape[0])});
}

std::span<float> GradientExchange::sum(std::int32_t slot) {
  const BucketSlot& place = accumulator_->layout().slots[static_cast<std::size_t>(slot)];
  return rows(place.bucket)
      .subspan(static_cast<std::size_t>(place.offset), static_cast<std::size_t>(place.count));
}

std::uint64_t GradientExchange::checksum() {
  Checksum checksum;
  for (std::size_t slot = 0; slot < accumulator_->layout().slots.size(); ++slot)
    checksum.add(std::as_bytes(sum(static_cast<std::int32_t>(slot))));
  return checksum.value();
}

std::uint64_t GradientExchange::bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (std::size_t b = 0; b < buffers_.size(); ++b)
    bytes += summands(static_cast<std::int32_t>(b)).bytes.size();
  return bytes;
}

}  // namespace muster::parallel
