#include "muster/parallel/sharded_optimizer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "muster/base/check.h"
#include "muster/parallel/part_slices.h"
#include "muster/parallel/state_order.h"
#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {
namespace {

// Of the only one there is: everything, in the order of slots.
ShardPlan one_shard(const std::vector<models::Parameter>& parameters) {
  ShardPlan plan{.shards = {}, .pieces = {{}}};
  for (std::size_t slot = 1; slot <= parameters.size(); ++slot)
    plan.pieces.front().push_back(
        {static_cast<std::int32_t>(slot), 0, parameters[parameters.size() - slot].tensor.numel()});
  return plan;
}

std::vector<ShardPiece> in_model_order(const ShardPlan& plan, Rank shard) {
  const auto& pieces = plan.pieces[static_cast<std::size_t>(to_int(shard))];
  return {pieces.rbegin(), pieces.rend()};
}

std::vector<optim::StateTensor> sorted_state(optim::Optimizer& optimizer) {
  std::vector<optim::StateTensor> state = optimizer.state();
  std::ranges::sort(state, {}, &optim::StateTensor::name);
  return state;
}

}  // namespace

Result<std::unique_ptr<ShardedOptimizer>> ShardedOptimizer::create(
    std::vector<models::Parameter> parameters, optim::CreateOptimizer create, OnLanes on_lanes) {
  std::unique_ptr<ShardedOptimizer> optimizer(
      new ShardedOptimizer(std::move(parameters), std::move(create), std::move(on_lanes)));
  MUSTER_TRY(optimizer->hold(one_shard(optimizer->parameters_), Rank{0}, {}));
  return optimizer;
}

ShardedOptimizer::ShardedOptimizer(std::vector<models::Parameter> parameters,
                                   optim::CreateOptimizer create, OnLanes on_lanes)
    : parameters_(std::move(parameters)),
      create_(std::move(create)),
      on_lanes_(std::move(on_lanes)) {
  first_cell_.push_back(0);
  for (const models::Parameter& parameter : parameters_) {
    const auto sizes = parameter.tensor.sizes();
    cells_.push_back(optim::cells_of({sizes.data(), sizes.size()}));
    first_cell_.push_back(first_cell_.back() + static_cast<std::size_t>(cells_.back().count()));
  }
}

// Slots come in the order in which backward finishes parameters.
ShardPlan ShardedOptimizer::plan_for(const BucketLayout& layout, std::int32_t shards) const {
  const std::vector<optim::Cells> in_slots(cells_.rbegin(), cells_.rend());
  return plan_shards(layout, in_slots, shards);
}

at::Tensor ShardedOptimizer::rows_of(const at::Tensor& whole, const ShardPiece& piece) const {
  if (piece.count == whole.numel()) return whole.detach();
  const std::int64_t row = cells_[parameter_of(piece)].row;
  return whole.detach().narrow(0, piece.begin / row, piece.count / row);
}

std::vector<at::Tensor> ShardedOptimizer::rows_in_model(
    const std::vector<ShardPiece>& pieces) const {
  std::vector<at::Tensor> rows;
  rows.reserve(pieces.size());
  for (const ShardPiece& piece : pieces)
    rows.push_back(rows_of(parameters_[parameter_of(piece)].tensor, piece));
  return rows;
}

Result<std::unique_ptr<optim::Optimizer>> ShardedOptimizer::optimizer_of(
    const std::vector<ShardPiece>& pieces, const std::vector<at::Tensor>& rows) const {
  std::vector<optim::OptimizedParameter> parameters;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const models::Parameter& whole = parameters_[parameter_of(pieces[i])];
    parameters.push_back({whole.name, rows[i], whole.decays});
  }
  return create_(std::move(parameters));
}

std::map<std::string, const ShardPiece*> ShardedOptimizer::by_name(
    const std::vector<ShardPiece>& pieces) const {
  std::map<std::string, const ShardPiece*> of_name;
  for (const ShardPiece& piece : pieces) of_name[parameters_[parameter_of(piece)].name] = &piece;
  return of_name;
}

// Those rows of the whole state, in the order of names.
std::vector<at::Tensor> ShardedOptimizer::state_of(const std::vector<ShardPiece>& pieces) const {
  const auto of_name = by_name(pieces);
  std::vector<at::Tensor> state;
  for (const optim::StateTensor& tensor : sorted_state(*optimizer_)) {
    const auto piece = of_name.find(owner_in(tensor.name));
    if (piece != of_name.end()) state.push_back(rows_of(tensor.tensor, *piece->second));
  }
  return state;
}

Status ShardedOptimizer::keep(ShardPlan plan, Rank shard, std::vector<at::Tensor> rows) {
  MUSTER_CHECK(shards() == 1, "the state is cut once");
  return hold(std::move(plan), shard, std::move(rows));
}

Status ShardedOptimizer::hold(ShardPlan plan, Rank shard, std::vector<at::Tensor> rows) {
  std::vector<ShardPiece> pieces = in_model_order(plan, shard);
  if (rows.empty()) rows = rows_in_model(pieces);
  MUSTER_CHECK(rows.size() == pieces.size(), "rows for each piece");
  MUSTER_ASSIGN(auto optimizer, optimizer_of(pieces, rows));
  if (optimizer_) {
    const std::vector<at::Tensor> before = state_of(pieces);
    const std::vector<optim::StateTensor> now = sorted_state(*optimizer);
    MUSTER_CHECK(before.size() == now.size(), "the state of a part is a part of the state");
    for (std::size_t i = 0; i < now.size(); ++i) at::Tensor(now[i].tensor).copy_(before[i]);
    optimizer->set_steps(optimizer_->steps());
  }
  ahead_.reset();
  plan_ = std::move(plan);
  shard_ = shard;
  pieces_ = std::move(pieces);
  rows_ = std::move(rows);
  optimizer_ = std::move(optimizer);
  mirror_ = {};
  return ok();
}

void ShardedOptimizer::lay_over(const std::function<std::span<float>(const ShardPiece&)>& sum_of) {
  gradients_.clear();
  for (std::size_t i = 0; i < pieces_.size(); ++i)
    gradients_.push_back(tensor_over_sum(sum_of(pieces_[i]), rows_[i].sizes()));
}

void ShardedOptimizer::meet(std::shared_ptr<comm::Communicator> one_of_each, comm::OpOptions op) {
  one_of_each_ = std::move(one_of_each);
  op_ = std::move(op);
}

std::ptrdiff_t ShardedOptimizer::first_cell_of(const ShardPiece& piece) const {
  const std::size_t parameter = parameter_of(piece);
  return static_cast<std::ptrdiff_t>(first_cell_[parameter]) + piece.begin / cells_[parameter].size;
}

void ShardedOptimizer::add_squares(const ShardPiece& piece, const at::Tensor& gradient,
                                   std::vector<double>& by_cell) const {
  const optim::Cells& cells = cells_[parameter_of(piece)];
  const std::span<const float> sum = floats_of(gradient);
  const std::int64_t last = piece.begin + piece.count;
  auto place = by_cell.begin() + first_cell_of(piece);
  for (std::int64_t c = piece.begin / cells.size; cells.begin(c) < last; ++c)
    *place++ = optim::sum_of_squares(
        sum.subspan(static_cast<std::size_t>(cells.begin(c) - piece.begin),
                    static_cast<std::size_t>(cells.begin(c + 1) - cells.begin(c))));
}

Result<std::vector<double>> ShardedOptimizer::squared_norms() {
  std::vector<double> by_cell(first_cell_.back());
  MUSTER_TRY(on_lanes_(pieces_.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) add_squares(pieces_[i], gradients_[i], by_cell);
  }));
  return sum_by_parameter(std::move(by_cell), "norms");
}

// Each shard's rank knows the numbers of its own cells; what it does not know is zero, so the sum
// over ranks is exact in any order, and that over the cells of a parameter has one order.
Result<std::vector<double>> ShardedOptimizer::sum_by_parameter(std::vector<double> by_cell,
                                                               std::string_view label) {
  if (shards() > 1) {
    comm::OpOptions op = op_;
    op.label = label;
    const comm::AllReduce sum{.buffer = view_of(std::span(by_cell))};
    MUSTER_TRY(one_of_each_->submit(sum, op).wait());
  }
  std::vector<double> sums;
  sums.reserve(cells_.size());
  for (std::size_t p = 0; p < cells_.size(); ++p)
    sums.push_back(
        std::accumulate(by_cell.begin() + static_cast<std::ptrdiff_t>(first_cell_[p]),
                        by_cell.begin() + static_cast<std::ptrdiff_t>(first_cell_[p + 1]), 0.0));
  return sums;
}

Status ShardedOptimizer::update(double learning_rate, double divisor) {
  mirror_.changed();
  std::size_t first = 0;  // piece that is still to be updated
  if (is_ahead_with(learning_rate, divisor)) {
    first = ahead_->accept();
  } else {
    roll_back();
    optimizer_->begin_step(learning_rate);
  }
  const std::vector<at::Tensor> gradients = gradients_by_rows();
  if (optim::NormScaled* const scaled = scaled_among_ranks())
    return update_scaled(*scaled, gradients, divisor);
  return update_pieces(first, gradients, divisor);
}

// Where ranks have only parts of the tensors whose norms the update depends on.
optim::NormScaled* ShardedOptimizer::scaled_among_ranks() const noexcept {
  const bool holds_whole_tensors = shards() == 1 && !over_parts_;
  return holds_whole_tensors ? nullptr : optimizer_->norm_scaled();
}

bool ShardedOptimizer::can_update_ahead() const {
  return scaled_among_ranks() == nullptr && !optimizer_->is_offloaded();
}

std::vector<std::vector<at::Tensor>> ShardedOptimizer::written_tensors() const {
  std::map<std::string, std::vector<at::Tensor>> state;  // by parameter
  for (const optim::StateTensor& tensor : optimizer_->state())
    state[owner_in(tensor.name)].push_back(tensor.tensor);
  std::vector<std::vector<at::Tensor>> written;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    written.push_back({rows_[i]});
    const auto remembered = state.find(parameters_[parameter_of(pieces_[i])].name);
    if (remembered == state.end()) continue;  // as of SGD without momentum
    written.back().insert(written.back().end(), remembered->second.begin(),
                          remembered->second.end());
  }
  return written;
}

void ShardedOptimizer::update_ahead(double learning_rate, double divisor,
                                    const std::function<bool()>& decided) {
  MUSTER_CHECK(can_update_ahead(), "an update of this rank's alone");
  if (!ahead_) ahead_ = std::make_unique<UpdateAhead>(*optimizer_, written_tensors());
  mirror_.changed();
  ahead_->begin(learning_rate, divisor, gradients_, decided);
}

void ShardedOptimizer::roll_back() {
  if (ahead_) ahead_->roll_back();
}

std::uint64_t ShardedOptimizer::ahead_bytes() {
  std::uint64_t bytes = can_update_ahead() ? state_bytes() : 0;
  for (const at::Tensor& rows : rows_) bytes += can_update_ahead() ? rows.nbytes() : 0;
  return bytes;
}

// Where the rows lie: on the host the sums themselves.
std::vector<at::Tensor> ShardedOptimizer::gradients_by_rows() const {
  std::vector<at::Tensor> gradients;
  gradients.reserve(gradients_.size());
  for (std::size_t i = 0; i < gradients_.size(); ++i)
    gradients.push_back(gradients_[i].to(rows_[i].device()));
  return gradients;
}

// From the first of them on that is not updated yet.
Status ShardedOptimizer::update_pieces(std::size_t first, std::span<const at::Tensor> gradients,
                                       double divisor) {
  return on_lanes_(pieces_.size() - first, [&](std::size_t begin, std::size_t end) {
    optimizer_->update({first + begin, first + end}, gradients.subspan(first + begin, end - begin),
                       divisor);
  });
}

// After measure(): by parameter.
Result<std::vector<double>> ShardedOptimizer::whole_squares(const optim::NormScaled& optimizer,
                                                            double optim::NormSquares::*member) {
  std::vector<double> by_cell(first_cell_.back());
  for (std::size_t i = 0; i < pieces_.size(); ++i)
    std::ranges::transform(optimizer.squares(i), by_cell.begin() + first_cell_of(pieces_[i]),
                           [&](const optim::NormSquares& squares) { return squares.*member; });
  MUSTER_ASSIGN(std::vector<double> sums, sum_by_parameter(std::move(by_cell), "trust ratios"));
  if (!over_parts_) return sums;
  return over_parts_(std::move(sums));
}

// The norms are those of whole tensors, so between its two halves the ranks tell each other.
Status ShardedOptimizer::update_scaled(optim::NormScaled& optimizer,
                                       std::span<const at::Tensor> gradients, double divisor) {
  MUSTER_TRY(on_lanes_(pieces_.size(), [&](std::size_t begin, std::size_t end) {
    optimizer.measure({begin, end}, gradients.subspan(begin, end - begin), divisor);
  }));
  MUSTER_ASSIGN(const std::vector<double> weights,
                whole_squares(optimizer, &optim::NormSquares::weights));
  MUSTER_ASSIGN(const std::vector<double> directions,
                whole_squares(optimizer, &optim::NormSquares::direction));
  std::vector<optim::NormSquares> wholes;
  wholes.reserve(pieces_.size());
  for (const ShardPiece& piece : pieces_)
    wholes.push_back({weights[parameter_of(piece)], directions[parameter_of(piece)]});
  return on_lanes_(pieces_.size(), [&](std::size_t begin, std::size_t end) {
    const std::size_t count = end - begin;
    optimizer.finish({begin, end}, gradients.subspan(begin, count),
                     std::span(wholes).subspan(begin, count));
  });
}

void ShardedOptimizer::loaded(std::int64_t steps) {
  mirror_.write_back();
  optimizer_->set_steps(steps);
}

std::vector<TensorSlice> ShardedOptimizer::state() {
  const auto of_name = by_name(pieces_);
  std::vector<TensorSlice> state;
  for (const optim::StateTensor& tensor : optimizer_->state()) {
    const ShardPiece& piece = *of_name.at(owner_in(tensor.name));
    const std::size_t p = parameter_of(piece);
    const at::Tensor& whole = parameters_[p].tensor;
    add_slices(state, tensor.name, mirror_.of(tensor.tensor), parameters_[p].cut,
               {piece.begin / cells_[p].row, whole.dim() == 0 ? 1 : whole.size(0)});
  }
  return state;
}

}  // namespace muster::parallel
