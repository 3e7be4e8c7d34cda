#include "muster/parallel/sharded.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "muster/base/check.h"
#include "muster/layout/shard_turns.h"
#include "muster/parallel/state_order.h"
#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {
namespace {

SliceOptions with_notes_apart(SliceOptions options) {
  options.bucket_sizes.first_slot_alone = true;
  return options;
}

std::vector<ShardPiece> in_model_order(const ShardPlan& plan, Rank rank) {
  const auto& pieces = plan.pieces[static_cast<std::size_t>(to_int(rank))];
  return {pieces.rbegin(), pieces.rend()};
}

void copy_bytes(const at::Tensor& from, const at::Tensor& to) {
  std::ranges::copy(view_over(from).bytes, view_over(to).bytes.begin());
}

std::vector<optim::StateTensor> sorted_state(optim::Optimizer& optimizer) {
  std::vector<optim::StateTensor> state = optimizer.state();
  std::ranges::sort(state, {}, &optim::StateTensor::name);
  return state;
}

}  // namespace

Result<std::unique_ptr<Sharded>> Sharded::create(std::unique_ptr<models::Model> model,
                                                 optim::CreateOptimizer create_optimizer,
                                                 SliceOptions options, Clock& clock) {
  std::unique_ptr<Sharded> sharded(
      new Sharded(std::move(model), std::move(create_optimizer), std::move(options), clock));
  MUSTER_TRY(sharded->hold(sharded->plan_for(1), Rank{0}));
  return sharded;
}

Sharded::Sharded(std::unique_ptr<models::Model> model, optim::CreateOptimizer create_optimizer,
                 SliceOptions options, Clock& clock)
    : SliceStrategy(std::move(model), with_notes_apart(std::move(options)), clock),
      create_(std::move(create_optimizer)),
      layout_(slices().bucket_layout()) {
  first_cell_.push_back(0);
  for (const models::Parameter& parameter : this->model().parameters()) {
    const auto sizes = parameter.tensor.sizes();
    cells_.push_back(optim::cells_of({sizes.data(), sizes.size()}));
    first_cell_.push_back(first_cell_.back() + static_cast<std::size_t>(cells_.back().count()));
  }
}

// Slots come in the order in which backward finishes parameters.
std::size_t Sharded::parameter_of(std::int32_t slot) const {
  return cells_.size() - static_cast<std::size_t>(slot);
}

ShardPlan Sharded::plan_for(std::int32_t ranks) {
  const std::vector<optim::Cells> in_slots(cells_.rbegin(), cells_.rend());
  return plan_shards(layout_, in_slots, ranks);
}

at::Tensor Sharded::rows_of(const at::Tensor& whole, const ShardPiece& piece) const {
  if (piece.count == whole.numel()) return whole.detach();
  const std::int64_t row = cells_[parameter_of(piece.slot)].row;
  return whole.detach().narrow(0, piece.begin / row, piece.count / row);
}

std::vector<at::Tensor> Sharded::rows_in_model(const std::vector<ShardPiece>& pieces) const {
  std::vector<at::Tensor> rows;
  rows.reserve(pieces.size());
  for (const ShardPiece& piece : pieces)
    rows.push_back(rows_of(model().parameters()[parameter_of(piece.slot)].tensor, piece));
  return rows;
}

Result<std::unique_ptr<optim::Optimizer>> Sharded::optimizer_of(
    const std::vector<ShardPiece>& pieces, const std::vector<at::Tensor>& rows) {
  std::vector<optim::OptimizedParameter> parameters;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const models::Parameter& whole = model().parameters()[parameter_of(pieces[i].slot)];
    parameters.push_back({whole.name, rows[i], whole.decays});
  }
  return create_(std::move(parameters));
}

std::map<std::string, const ShardPiece*> Sharded::by_name(
    const std::vector<ShardPiece>& pieces) const {
  std::map<std::string, const ShardPiece*> of_name;
  for (const ShardPiece& piece : pieces)
    of_name[model().parameters()[parameter_of(piece.slot)].name] = &piece;
  return of_name;
}

// Those rows of the whole state, in the order of names.
std::vector<at::Tensor> Sharded::state_of(const std::vector<ShardPiece>& pieces,
                                          optim::Optimizer& whole) const {
  const auto of_name = by_name(pieces);
  std::vector<at::Tensor> state;
  for (const optim::StateTensor& tensor : sorted_state(whole)) {
    const auto piece = of_name.find(owner_in(tensor.name));
    if (piece != of_name.end()) state.push_back(rows_of(tensor.tensor, *piece->second));
  }
  return state;
}

Status Sharded::hold(ShardPlan plan, Rank rank) {
  std::vector<ShardPiece> pieces = in_model_order(plan, rank);
  std::vector<at::Tensor> rows = trained_shards_ ? trained_shards_->rows() : rows_in_model(pieces);
  MUSTER_ASSIGN(auto optimizer, optimizer_of(pieces, rows));
  if (optimizer_) {
    const std::vector<at::Tensor> before = state_of(pieces, *optimizer_);
    const std::vector<optim::StateTensor> now = sorted_state(*optimizer);
    MUSTER_CHECK(before.size() == now.size(), "the state of a part is a part of the state");
    for (std::size_t i = 0; i < now.size(); ++i) at::Tensor(now[i].tensor).copy_(before[i]);
    optimizer->set_steps(optimizer_->steps());
  }
  plan_ = std::move(plan);
  rank_ = rank;
  pieces_ = std::move(pieces);
  rows_ = std::move(rows);
  optimizer_ = std::move(optimizer);
  return ok();
}

// Frozen parameters have buckets of their own, in which nothing but weights ever travels.
void Sharded::cut_weights(const ShardPlan& plan, Rank rank) {
  const std::vector<models::Parameter>& frozen = model().frozen();
  BucketSizes sizes = options().bucket_sizes;
  sizes.dtype = DType::kF32;
  const BucketLayout layout = plan_block_buckets(model(), frozen, 0, sizes);
  const auto ranks = static_cast<std::int32_t>(plan.pieces.size());
  frozen_shards_ = std::make_unique<const WeightShards>(
      frozen, layout, plan_shards(layout, cells_by_slot(frozen), ranks), rank);
  trained_shards_ = std::make_unique<const WeightShards>(model().parameters(), layout_, plan, rank);
}

Result<std::unique_ptr<WeightGathers>> Sharded::make_gathers(
    comm::Communicator& communicator) const {
  if (!options().shard_weights) return std::unique_ptr<WeightGathers>();
  std::vector<WeightBucket> buckets;
  trained_shards_->append_to(buckets);
  frozen_shards_->append_to(buckets);
  auto needed = buckets_needed(model(), buckets);
  return WeightGathers::create(communicator, std::move(buckets), std::move(needed), options().op);
}

Status Sharded::enter(std::shared_ptr<comm::Communicator> communicator,
                      const comm::LeafOwners& owners) {
  const comm::Group group = communicator->group();
  const auto before = static_cast<std::int32_t>(plan_.pieces.size());
  const bool cut = before != 1 || trained_shards_;
  const bool same = group.size == before && group.rank == rank_;
  if (cut && !same)
    return fail(ErrorCode::kUnavailable,
                fmt::format("[parallel/sharded] the optimizer's state is cut for {} ranks and "
                            "rank {}, generation {} has this as rank {} of {}; go on from a "
                            "checkpoint: muster train JOB --resume",
                            before, to_int(rank_), to_int(group.generation), to_int(group.rank),
                            group.size));
  if (!cut && (!same || options().shard_weights)) {
    ShardPlan plan = plan_for(group.size);
    if (options().shard_weights) cut_weights(plan, group.rank);
    MUSTER_TRY(hold(std::move(plan), group.rank));
  }
  MUSTER_ASSIGN(auto gathers, make_gathers(*communicator));
  MUSTER_TRY(slices().enter(std::move(communicator), owners, plan_.shards, std::move(gathers)));
  lay_over_sums();
  return ok();
}

const SliceOptions& Sharded::options() const noexcept { return slices().options(); }

std::span<float> Sharded::sum_of(const ShardPiece& piece) {
  if (options().shard_gradients) {
    const BucketSlot& place = layout_.slots[static_cast<std::size_t>(piece.slot)];
    const std::int64_t first =
        plan_.shards[static_cast<std::size_t>(place.bucket)]->begin_of(rank_);
    return slices()
        .shard_exchange()
        .sum(place.bucket)
        .subspan(static_cast<std::size_t>(place.offset + piece.begin - first),
                 static_cast<std::size_t>(piece.count));
  }
  return slices()
      .exchange()
      .sum(piece.slot)
      .subspan(static_cast<std::size_t>(piece.begin), static_cast<std::size_t>(piece.count));
}

void Sharded::lay_over_sums() {
  gradients_.clear();
  for (std::size_t i = 0; i < pieces_.size(); ++i)
    gradients_.push_back(tensor_over_sum(sum_of(pieces_[i]), rows_[i].sizes()));
}

Result<StepReport> Sharded::step(const StepInput& input) {
  StepReport report;
  MUSTER_TRY(slices().compute(input, report));
  MUSTER_ASSIGN(const std::vector<double> squares, squared_norms());
  MUSTER_ASSIGN(const auto divisor, slices().check_and_clip(input, squares, report));
  if (!divisor) return report;
  const auto apply = [&] { return update(input.learning_rate, *divisor); };
  MUSTER_TRY(timed_update(input, report, apply));
  if (options().shard_gradients && !trained_shards_) report.bytes_reduced += shared_bytes();
  return report;
}

// Its shard of the updated weights, to each of the others.
std::uint64_t Sharded::shared_bytes() const {
  std::int64_t own = 0;
  for (const auto& shards : plan_.shards)
    if (shards) own += shards->count_of(rank_);
  return static_cast<std::uint64_t>(own) * sizeof(float) * (plan_.pieces.size() - 1);
}

Result<std::vector<double>> Sharded::squared_norms() {
  std::vector<double> by_cell(first_cell_.back());
  MUSTER_TRY(slices().on_lanes(pieces_.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const optim::Cells& cells = cells_[parameter_of(pieces_[i].slot)];
      const std::span<const float> sum = sum_of(pieces_[i]);
      const std::int64_t last = pieces_[i].begin + pieces_[i].count;
      auto place = by_cell.begin() + first_cell_of(pieces_[i]);
      for (std::int64_t c = pieces_[i].begin / cells.size; cells.begin(c) < last; ++c)
        *place++ = optim::sum_of_squares(
            sum.subspan(static_cast<std::size_t>(cells.begin(c) - pieces_[i].begin),
                        static_cast<std::size_t>(cells.begin(c + 1) - cells.begin(c))));
    }
  }));
  return sum_by_parameter(std::move(by_cell), "norms");
}

std::ptrdiff_t Sharded::first_cell_of(const ShardPiece& piece) const {
  const std::size_t parameter = parameter_of(piece.slot);
  return static_cast<std::ptrdiff_t>(first_cell_[parameter]) + piece.begin / cells_[parameter].size;
}

// Each rank knows the numbers of its own cells; what it does not know is zero, so the sum over
// ranks is exact in any order, and that over the cells of a parameter has one order.
Result<std::vector<double>> Sharded::sum_by_parameter(std::vector<double> by_cell,
                                                      std::string_view label) {
  const comm::AllReduce sum{.buffer = view_of(std::span(by_cell))};
  MUSTER_TRY(slices().communicator().submit(sum, op_for(label)).wait());
  std::vector<double> sums;
  for (std::size_t p = 0; p < cells_.size(); ++p)
    sums.push_back(
        std::accumulate(by_cell.begin() + static_cast<std::ptrdiff_t>(first_cell_[p]),
                        by_cell.begin() + static_cast<std::ptrdiff_t>(first_cell_[p + 1]), 0.0));
  return sums;
}

Status Sharded::update(double learning_rate, double divisor) {
  gathered_model_.forget();  // whoever read it has finished
  gathered_optimizer_.forget();
  optimizer_->begin_step(learning_rate);
  optim::NormScaled* const scaled = optimizer_->norm_scaled();
  MUSTER_TRY(scaled ? update_scaled(*scaled, divisor) : update_pieces(divisor));
  apply_statistics(slices().summed_statistics());
  return trained_shards_ ? ok() : share(rows_);
}

// `rows`: this rank's, of all parameters together; the model gets those of all ranks.
Status Sharded::share(const std::vector<at::Tensor>& rows) {
  return options().shard_gradients ? share_by_bucket(rows) : share_at_once(rows);
}

// A few buckets at a time, so that there is no need for memory for all of them.
Status Sharded::share_by_bucket(const std::vector<at::Tensor>& rows) {
  const auto bucket_of = [&](std::int32_t slot) {
    return layout_.slots[static_cast<std::size_t>(slot)].bucket;
  };
  const auto put = [&](std::int32_t bucket, std::span<float> shard) {
    const std::int64_t first = plan_.shards[static_cast<std::size_t>(bucket)]->begin_of(rank_);
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      if (bucket_of(pieces_[i].slot) != bucket) continue;
      const std::int64_t offset = layout_.slots[static_cast<std::size_t>(pieces_[i].slot)].offset;
      std::ranges::copy(floats_of(rows[i]), shard.begin() + offset + pieces_[i].begin - first);
    }
  };
  const auto& parameters = model().parameters();
  const auto take = [&](std::int32_t bucket, std::span<const float> whole) {
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      const BucketSlot& place = layout_.slots[static_cast<std::size_t>(slices().slot_of(p))];
      if (place.bucket == bucket)
        std::ranges::copy(std::as_bytes(whole.subspan(static_cast<std::size_t>(place.offset),
                                                      static_cast<std::size_t>(place.count))),
                          view_over(parameters[p].tensor).bytes.begin());
    }
  };
  return slices().shard_exchange().gather(put, take);
}

Status Sharded::share_at_once(const std::vector<at::Tensor>& rows) {
  MUSTER_TRY(slices().on_lanes(pieces_.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      std::ranges::copy(view_over(rows[i]).bytes, view_over(gradients_[i]).bytes.begin());
  }));
  MUSTER_TRY(slices().exchange().gather());
  const auto& parameters = model().parameters();
  return slices().on_lanes(parameters.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t p = begin; p < end; ++p)
      std::ranges::copy(std::as_bytes(slices().exchange().sum(slices().slot_of(p))),
                        view_over(parameters[p].tensor).bytes.begin());
  });
}

Status Sharded::use_average(bool average) {
  std::vector<at::Tensor> held = rows_;  // what this rank has of the parameters
  if (!trained_shards_) {
    held.clear();
    for (const models::Parameter& parameter : model().parameters())
      held.push_back(parameter.tensor.detach());
  }
  if (!average) {
    for (std::size_t p = 0; p < trained_.size(); ++p) copy_bytes(trained_[p], held[p]);
    trained_.clear();
    return ok();
  }
  if (!trained_.empty()) return ok();
  if (optimizer_->average().size() != pieces_.size())
    return fail(ErrorCode::kInvalid, "[parallel] no average is kept");
  for (const at::Tensor& tensor : held) trained_.push_back(tensor.clone());
  const Status used = use_average_of_all();
  if (!used) trained_.clear();
  return used;
}

// Where nobody holds more than its shard, it comes with the next gathers.
Status Sharded::use_average_of_all() {
  const std::vector<at::Tensor> averages = optimizer_->average();
  if (!trained_shards_) return share(averages);
  for (std::size_t i = 0; i < rows_.size(); ++i) copy_bytes(averages[i], rows_[i]);
  return ok();
}

Status Sharded::update_pieces(double divisor) {
  const std::span<const at::Tensor> gradients(gradients_);
  return slices().on_lanes(pieces_.size(), [&](std::size_t begin, std::size_t end) {
    optimizer_->update({begin, end}, gradients.subspan(begin, end - begin), divisor);
  });
}

// The norms are those of whole tensors, so between its two halves the ranks tell each other.
Status Sharded::update_scaled(optim::NormScaled& optimizer, double divisor) {
  const std::span<const at::Tensor> gradients(gradients_);
  MUSTER_TRY(slices().on_lanes(pieces_.size(), [&](std::size_t begin, std::size_t end) {
    optimizer.measure({begin, end}, gradients.subspan(begin, end - begin), divisor);
  }));
  const auto whole = [&](double optim::NormSquares::*member) {
    std::vector<double> by_cell(first_cell_.back());
    for (std::size_t i = 0; i < pieces_.size(); ++i)
      std::ranges::transform(optimizer.squares(i), by_cell.begin() + first_cell_of(pieces_[i]),
                             [&](const optim::NormSquares& squares) { return squares.*member; });
    return sum_by_parameter(std::move(by_cell), "trust ratios");
  };
  MUSTER_ASSIGN(const std::vector<double> weights, whole(&optim::NormSquares::weights));
  MUSTER_ASSIGN(const std::vector<double> directions, whole(&optim::NormSquares::direction));
  std::vector<optim::NormSquares> wholes;
  for (const ShardPiece& piece : pieces_) {
    const std::size_t parameter = parameter_of(piece.slot);
    wholes.push_back({weights[parameter], directions[parameter]});
  }
  return slices().on_lanes(pieces_.size(), [&](std::size_t begin, std::size_t end) {
    const std::size_t count = end - begin;
    optimizer.finish({begin, end}, gradients.subspan(begin, count),
                     std::span(wholes).subspan(begin, count));
  });
}

std::vector<StateSlice> Sharded::optimizer_state() {
  const auto of_name = by_name(pieces_);
  std::vector<StateSlice> state;
  for (const optim::StateTensor& tensor : optimizer_->state()) {
    StateSlice slice = whole_slice(tensor.name, tensor.tensor);
    const ShardPiece& piece = *of_name.at(owner_in(tensor.name));
    const std::size_t parameter = parameter_of(piece.slot);
    const auto sizes = model().parameters()[parameter].tensor.sizes();
    slice.global_shape.assign(sizes.begin(), sizes.end());
    if (!slice.offset.empty()) slice.offset[0] = piece.begin / cells_[parameter].row;
    state.push_back(std::move(slice));
  }
  return state;
}

std::vector<StateSlice> Sharded::model_state() {
  if (!trained_shards_) return SliceStrategy::model_state();
  std::vector<StateSlice> state = trained_shards_->state();
  std::ranges::move(frozen_shards_->state(), std::back_inserter(state));
  std::ranges::move(replicated_state(), std::back_inserter(state));
  return state;
}

std::vector<StateSlice> Sharded::replicated_state() {
  if (!trained_shards_) return model_state();
  std::vector<StateSlice> state;
  for (const models::Statistic& statistic : model().statistics())
    state.push_back(whole_slice(statistic.name, statistic.tensor));
  return state;
}

// In the order of model_state().
std::vector<std::string> Sharded::state_names() const {
  std::vector<std::string> names;
  for (const auto* parameters : {&model().parameters(), &model().frozen()})
    for (const models::Parameter& parameter : *parameters) names.push_back(parameter.name);
  for (const models::Statistic& statistic : model().statistics()) names.push_back(statistic.name);
  return names;
}

Result<State> Sharded::gather_state(Rank to) {
  if (plan_.pieces.size() == 1) return State{model_state(), optimizer_state()};
  comm::Communicator& communicator = slices().communicator();
  const std::vector<std::string> names = state_names();
  State state;
  MUSTER_ASSIGN(state.optimizer, gathered_optimizer_.gather(communicator, optimizer_state(), to,
                                                            op_for("optimizer state")));
  sort_by_owner(names, state.optimizer);
  if (!trained_shards_) {
    state.model = model_state();
    return state;
  }
  MUSTER_ASSIGN(state.model,
                gathered_model_.gather(communicator, model_state(), to, op_for("weights")));
  sort_by_owner(names, state.model);
  return state;
}

comm::OpOptions Sharded::op_for(std::string_view label) {
  comm::OpOptions op = slices().options().op;
  op.label = label;
  return op;
}

std::uint64_t Sharded::optimizer_bytes(std::int32_t ranks) {
  const auto held = static_cast<std::int32_t>(plan_.pieces.size());
  return optimizer_->state_bytes() * static_cast<std::uint64_t>(held) /
         static_cast<std::uint64_t>(ranks);
}

std::uint64_t Sharded::gradient_bytes(std::int32_t ranks) {
  const std::uint64_t whole = SliceStrategy::gradient_bytes(ranks);
  if (!options().shard_gradients) return whole;
  const std::int32_t units =
      options().ordered ? options().virtual_workers : ranks * slices().lanes();
  const std::int32_t sums = layout::sums_held(units, ranks * slices().lanes());
  return whole * static_cast<std::uint64_t>(sums) / static_cast<std::uint64_t>(ranks);
}

std::uint64_t Sharded::weight_bytes(std::int32_t ranks) {
  const std::uint64_t whole = SliceStrategy::weight_bytes(ranks);
  if (!options().shard_weights) return whole;
  return whole / static_cast<std::uint64_t>(ranks) + widest_two_blocks(model());
}

Sharded::WeightMemory Sharded::measured_weights() const {
  return {.shards = trained_shards_->bytes() + frozen_shards_->bytes(),
          .whole = slices().gathers().most_bytes(),
          .whole_now = slices().gathers().bytes_here()};
}

Sharded::GradientMemory Sharded::measured_gradients() {
  const ShardExchange& exchange = slices().shard_exchange();
  return {exchange.sum_bytes(), exchange.window_bytes()};
}

void Sharded::fall_behind() { MUSTER_CHECK(false, "shards are not given to newcomers"); }

}  // namespace muster::parallel
