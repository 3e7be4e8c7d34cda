#include "muster/parallel/shard_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/comm/narrow.h"

namespace muster::parallel {
namespace {

constexpr std::size_t kRows = 2;  // whole buckets being gathered

Result<std::vector<std::int64_t>> gather_numbers(comm::Communicator& communicator,
                                                 std::int64_t mine, comm::OpOptions op) {
  op.label = "lanes";
  std::vector<std::int64_t> all(static_cast<std::size_t>(communicator.group().size));
  MUSTER_TRY(communicator
                 .submit(comm::AllGather{.output = view_of(std::span(all)),
                                         .input = view_of(std::span(&mine, 1))},
                         op)
                 .wait());
  return all;
}

// Who computes which unit: in fast mode each lane makes one of its share of slices.
comm::LeafOwners unit_owners(const ShardExchangeOptions& options,
                             const std::vector<std::int64_t>& lanes) {
  if (options.ordered) return options.owners;
  std::vector<std::int32_t> counts;
  for (std::size_t rank = 0; rank < lanes.size(); ++rank) {
    const auto slices = std::ranges::count(options.owners, Rank{static_cast<std::int32_t>(rank)});
    counts.push_back(static_cast<std::int32_t>(std::min<std::int64_t>(slices, lanes[rank])));
  }
  return comm::owners_by_count(counts);
}

}  // namespace

Result<std::unique_ptr<ShardExchange>> ShardExchange::create(
    const std::shared_ptr<comm::Communicator>& communicator, GradientSink& notes,
    const ShardExchangeOptions& options, Clock& clock) {
  MUSTER_ASSIGN(const auto lanes, gather_numbers(*communicator, options.lanes, options.op));
  comm::LeafOwners owners = unit_owners(options, lanes);
  const auto width = static_cast<std::int32_t>(options.ordered ? *std::ranges::min_element(lanes)
                                                               : *std::ranges::max_element(lanes));
  const auto longest =
      static_cast<std::size_t>(*std::ranges::max_element(options.layout.sizes)) * sizeof(float);
  std::vector<comm::Buffer> rows;
  for (std::size_t row = 0; options.gathers && row < kRows; ++row) {
    MUSTER_ASSIGN(rows.emplace_back(), communicator->allocate(longest));
  }
  auto traffic =
      std::make_shared<ShardTraffic>(communicator, options, std::move(owners), width, clock);
  return std::unique_ptr<ShardExchange>(
      new ShardExchange(notes, communicator, std::move(traffic), std::move(rows)));
}

ShardExchange::ShardExchange(GradientSink& notes, std::shared_ptr<comm::Communicator> communicator,
                             std::shared_ptr<ShardTraffic> traffic, std::vector<comm::Buffer> rows)
    : notes_(notes),
      communicator_(std::move(communicator)),
      traffic_(std::move(traffic)),
      rows_(std::move(rows)) {}

ShardExchange::~ShardExchange() = default;

Status ShardExchange::begin(std::span<const std::int64_t> passes) {
  return traffic_->begin(passes);
}

void ShardExchange::add(std::int32_t unit, std::int32_t slot, std::span<const float> values,
                        std::int32_t pass, std::int32_t passes) {
  if (slot == 0) return notes_.add(unit, slot, values, pass, passes);
  traffic_->add(unit, slot, values, pass, passes);
}

void ShardExchange::give_up(const Error& why) { traffic_->give_up(why); }
Status ShardExchange::finish() {
  MUSTER_TRY(traffic_->finish());
  return traffic_->options().copies ? sum_copies() : ok();
}

// This replica's parts, as they are held. Without a tree one that has none adds zeros.
TensorView ShardExchange::summands(std::size_t bucket) {
  const ShardExchangeOptions& options = traffic_->options();
  const std::span<float> rows = traffic_->rows(bucket);
  if (!options.tree && std::ranges::count(options.owners, kNoRank) == std::ssize(options.owners))
    std::ranges::fill(rows, 0.0F);
  const auto size = std::ssize(traffic_->sum(bucket));
  return {DType::kF32, {std::ssize(rows) / size, size}, std::as_writable_bytes(rows)};
}

// Sums of 16 bits travel and are added as such.
Status ShardExchange::sum_copies() {
  const ShardExchangeOptions& options = traffic_->options();
  std::vector<comm::Work> works;
  std::vector<std::vector<std::byte>> narrow(options.layout.sizes.size());
  reduced_ = 0;
  for (std::size_t bucket = 1; bucket < narrow.size(); ++bucket) {
    if (traffic_->sum(bucket).empty()) continue;
    TensorView view = summands(bucket);
    const DType dtype = options.layout.dtypes[bucket];
    if (dtype != DType::kF32) {
      narrow[bucket].resize(traffic_->rows(bucket).size() * size_of(dtype));
      comm::narrow(dtype, traffic_->rows(bucket), narrow[bucket].data());
      view = {dtype, view.shape, narrow[bucket]};
    }
    comm::OpOptions op = options.op;
    op.label = fmt::format("shards/{}", bucket);
    reduced_ += view.bytes.size();
    works.push_back(
        options.copies->submit(comm::AllReduce{.buffer = view, .tree = options.tree}, op));
  }
  MUSTER_TRY(comm::wait_for_all(works));
  for (std::size_t bucket = 1; bucket < narrow.size(); ++bucket)
    if (!narrow[bucket].empty())
      comm::widen(options.layout.dtypes[bucket], narrow[bucket].data(), traffic_->sum(bucket));
  return ok();
}

std::span<float> ShardExchange::sum(std::int32_t bucket) {
  return traffic_->sum(static_cast<std::size_t>(bucket));
}

Status ShardExchange::gather(const Put& put, const Take& take) {
  const ShardExchangeOptions& options = traffic_->options();
  const Rank rank = communicator_->group().rank;
  const std::size_t count = options.layout.sizes.size();
  const auto row = [&](std::size_t bucket) {
    return std::span(reinterpret_cast<float*>(rows_[bucket % kRows]->data()),
                     static_cast<std::size_t>(options.layout.sizes[bucket]));
  };
  std::vector<comm::Work> works;
  Status outcome = ok();
  for (std::size_t step = 1; step < count + kRows; ++step) {
    if (step > kRows) {  // the row is needed again, or this is the end
      const std::size_t done = step - kRows;
      if (done > works.size()) break;
      if (Status status = works[done - 1].wait(); !status && outcome) outcome = std::move(status);
      if (outcome) take(static_cast<std::int32_t>(done), row(done));
    }
    if (step >= count || !outcome) continue;
    const comm::Shards& shards = *options.shards[step];
    const std::span<float> own = row(step).subspan(static_cast<std::size_t>(shards.begin_of(rank)),
                                                   static_cast<std::size_t>(shards.count_of(rank)));
    put(static_cast<std::int32_t>(step), own);
    comm::OpOptions op = options.op;
    op.label = fmt::format("parameters/{}", step);
    works.push_back(communicator_->submit(
        comm::AllGather{
            .output = view_of(row(step)), .input = view_of(own), .shards = options.shards[step]},
        op));
  }
  return outcome;
}

std::uint64_t ShardExchange::bytes() const { return traffic_->bytes() + reduced_; }
std::uint64_t ShardExchange::sum_bytes() const { return traffic_->sum_bytes(); }
std::uint64_t ShardExchange::window_bytes() const { return traffic_->window_bytes(); }

}  // namespace muster::parallel
