#include "muster/parallel/weight_shards.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <numeric>
#include <utility>

#include "muster/base/check.h"
#include "muster/parallel/part_slices.h"
#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {
namespace {

bool uses(const std::vector<models::BlockParameter>& parameters, const at::Tensor& tensor) {
  return std::ranges::any_of(
      parameters, [&](const models::BlockParameter& p) { return p.tensor.is_same(tensor); });
}

bool uses(const models::Block& block, const at::Tensor& tensor) {
  return uses(block.parameters(), tensor) || uses(block.borrowed(), tensor);
}

struct Home {
  std::size_t block = 0;
  bool lent = false;
  friend bool operator==(const Home&, const Home&) = default;
};

Home home_of(const models::Model& model, const at::Tensor& parameter) {
  Home home{.block = model.blocks().size()};
  for (std::size_t b = 0; b < model.blocks().size(); ++b) {
    const models::Block& block = *model.blocks()[b].block;
    if (uses(block.parameters(), parameter)) home.block = b;
    if (uses(block.borrowed(), parameter)) home.lent = true;
  }
  MUSTER_CHECK(home.block < model.blocks().size(), "every parameter belongs to a block");
  return home;
}

Shape shape_of(const at::Tensor& tensor) {
  const auto sizes = tensor.sizes();
  return {sizes.begin(), sizes.end()};
}

optim::Cells cells_of(const models::Parameter& parameter) {
  const auto sizes = parameter.tensor.sizes();
  return optim::cells_of({sizes.data(), sizes.size()});
}

// Of the rows of a tensor.
Shape shape_of(const at::Tensor& whole, const ShardPiece& piece, std::int64_t row) {
  Shape shape = shape_of(whole);
  if (piece.count < whole.numel()) shape.front() = piece.count / row;
  return shape;
}

std::uint64_t bytes_of(const std::vector<const models::Block*>& blocks) {
  std::vector<at::Tensor> counted;
  std::uint64_t bytes = 0;
  for (const models::Block* block : blocks)
    for (const auto* list : {&block->parameters(), &block->borrowed()})
      for (const models::BlockParameter& parameter : *list) {
        const auto same = [&](const at::Tensor& t) { return t.is_same(parameter.tensor); };
        if (std::ranges::any_of(counted, same)) continue;
        counted.push_back(parameter.tensor);
        bytes += static_cast<std::uint64_t>(parameter.tensor.numel()) * sizeof(float);
      }
  return bytes;
}

using Runs = std::vector<PackedWeights::Run>;

// What pads a slot goes with it.
void add_to(Runs& runs, std::int64_t offset, bool narrow) {
  if (!runs.empty() && runs.back().narrow == narrow) return;
  if (!runs.empty()) runs.back().end = offset;
  runs.push_back({.narrow = narrow});
}

// None where there is nothing to round.
std::shared_ptr<const PackedWeights> packing_of(DType products, const comm::Shards& shards,
                                                Runs runs) {
  if (products == DType::kF32 || std::ranges::none_of(runs, &PackedWeights::Run::narrow))
    return nullptr;
  runs.back().end = shards.count();
  return std::make_shared<const PackedWeights>(products, shards, std::move(runs));
}

}  // namespace

BucketLayout plan_block_buckets(const models::Model& model,
                                const std::vector<models::Parameter>& parameters,
                                std::int64_t first, BucketSizes sizes) {
  std::vector<std::int64_t> counts{first};
  std::vector<std::int32_t> begins;
  Home last;
  for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
    const Home home = home_of(model, parameter->tensor);
    if (home != last || counts.size() == 1)
      begins.push_back(static_cast<std::int32_t>(counts.size()));
    counts.push_back(parameter->tensor.numel());
    last = home;
  }
  sizes.first_slot_alone = true;
  return plan_buckets(counts, sizes, begins);
}

std::vector<optim::Cells> cells_by_slot(const std::vector<models::Parameter>& parameters) {
  std::vector<optim::Cells> cells;
  cells.reserve(parameters.size());
  for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter)
    cells.push_back(cells_of(*parameter));
  return cells;
}

std::uint64_t widest_two_blocks(const models::Model& model) {
  const auto& blocks = model.blocks();
  std::uint64_t most = 0;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const std::size_t next = std::min(b + 1, blocks.size() - 1);
    most = std::max(most, bytes_of({blocks[b].block.get(), blocks[next].block.get()}));
  }
  return most;
}

WeightShards::WeightShards(const std::vector<models::Parameter>& parameters, BucketLayout layout,
                           const ShardPlan& plan, Rank rank)
    : parameters_(parameters), layout_(std::move(layout)), shards_(plan.shards), rank_(rank) {
  for (const auto& shards : shards_)
    own_.push_back(std::make_shared<std::vector<float>>(
        shards ? static_cast<std::size_t>(shards->count_of(rank)) : 0));
  const auto& pieces = plan.pieces[static_cast<std::size_t>(to_int(rank))];
  pieces_.assign(pieces.rbegin(), pieces.rend());
  for (const ShardPiece& piece : pieces_) {
    const models::Parameter& whole = parameters_[parameter_of(piece.slot)];
    const std::span<float> place = place_of(piece);
    copy_over(whole.tensor.detach().view(-1).narrow(0, piece.begin, piece.count), place);
    values_.push_back(tensor_over({DType::kF32, shape_of(whole.tensor, piece, cells_of(whole).row),
                                   std::as_writable_bytes(place)}));
    rows_.push_back(values_.back().to(whole.tensor.device()));
  }
}

void WeightShards::rows_changed() {
  for (std::size_t i = 0; i < rows_.size(); ++i) copy_over(rows_[i], values_[i]);
}

void WeightShards::loaded() {
  for (std::size_t i = 0; i < rows_.size(); ++i) copy_over(values_[i], rows_[i]);
}

std::span<float> WeightShards::place_of(const ShardPiece& piece) {
  const BucketSlot& slot = layout_.slots[static_cast<std::size_t>(piece.slot)];
  const auto bucket = static_cast<std::size_t>(slot.bucket);
  const std::int64_t first = shards_[bucket]->begin_of(rank_);
  return std::span(*own_[bucket])
      .subspan(static_cast<std::size_t>(slot.offset + piece.begin - first),
               static_cast<std::size_t>(piece.count));
}

std::vector<TensorSlice> WeightShards::state() const {
  std::vector<TensorSlice> state;
  state.reserve(pieces_.size());
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const models::Parameter& held = parameters_[parameter_of(pieces_[i].slot)];
    add_slices(
        state, held.name, values_[i], held.cut,
        {pieces_[i].begin / cells_of(held).row, held.tensor.dim() == 0 ? 1 : held.tensor.size(0)});
  }
  return state;
}

std::uint64_t WeightShards::bytes() const noexcept {
  return std::accumulate(
      own_.begin(), own_.end(), std::uint64_t{0},
      [](std::uint64_t sum, const auto& own) { return sum + own->size() * sizeof(float); });
}

void WeightShards::append_to(std::vector<WeightBucket>& buckets, DType products) const {
  std::vector<WeightBucket> planned = planned_buckets(parameters_, layout_, shards_, products);
  for (std::size_t bucket = 0; bucket < planned.size(); ++bucket)
    planned[bucket].own = own_[bucket + 1];
  std::ranges::move(planned, std::back_inserter(buckets));
}

std::vector<WeightBucket> planned_buckets(const std::vector<models::Parameter>& parameters,
                                          const BucketLayout& layout, const BucketShards& shards,
                                          DType products) {
  std::vector<WeightBucket> buckets;
  for (std::size_t bucket = 1; bucket < layout.sizes.size(); ++bucket)
    buckets.push_back({.shards = shards[bucket], .own = {}, .places = {}});
  std::vector<Runs> runs(buckets.size());
  for (std::size_t slot = 1; slot < layout.slots.size(); ++slot) {
    const BucketSlot& place = layout.slots[slot];
    const models::Parameter& parameter = parameters[parameters.size() - slot];
    const auto bucket = static_cast<std::size_t>(place.bucket) - 1;
    buckets[bucket].places.push_back({parameter.tensor, place.offset});
    add_to(runs[bucket], place.offset, parameter.products_only);
  }
  for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket)
    buckets[bucket].packed = packing_of(products, *buckets[bucket].shards, std::move(runs[bucket]));
  return buckets;
}

DType products_in(models::Precision precision) {
  switch (precision) {
    case models::Precision::kBF16:
      return DType::kBF16;
    case models::Precision::kF16:
      return DType::kF16;
    case models::Precision::kF32:
      break;
  }
  return DType::kF32;
}

std::vector<std::vector<std::size_t>> buckets_needed(const models::Model& model,
                                                     std::span<const WeightBucket> buckets) {
  std::vector<std::vector<std::size_t>> needed;
  for (const models::NamedBlock& named : model.blocks()) {
    std::vector<std::size_t>& of_block = needed.emplace_back();
    for (std::size_t b = 0; b < buckets.size(); ++b)
      if (std::ranges::any_of(buckets[b].places, [&](const WeightBucket::Place& place) {
            return uses(*named.block, place.parameter);
          }))
        of_block.push_back(b);
  }
  return needed;
}

}  // namespace muster::parallel
