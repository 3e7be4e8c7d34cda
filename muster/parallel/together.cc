#include "muster/parallel/together.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "muster/models/torch_error.h"
#include "muster/parallel/state_order.h"
#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {
namespace {

using layout::Axis;

models::TensorShare share_along(const MeshPlace& place, Axis axis) {
  return {place.along(axis), place.mesh.extent(axis)};
}

// Of the parameters that are not cut, all or those that have addends, one behind the other, the
// rows that an optimizer has.
class WholeRows {
 public:
  WholeRows(ShardedOptimizer& optimizer, bool all) : optimizer_(optimizer) {
    for (const models::Parameter& parameter : optimizer.parameters()) {
      begin_.push_back(count_);
      chosen_.push_back(!parameter.cut.is_part() && (all || parameter.partition.has_addends));
      if (chosen_.back()) count_ += parameter.tensor.numel();
    }
  }
  std::int64_t count() const noexcept { return count_; }

  using Body = std::function<void(at::Tensor place, at::Tensor gradient)>;
  void each(const at::Tensor& flat, const Body& body) const {
    for (std::size_t i = 0; i < optimizer_.pieces().size(); ++i) {
      const ShardPiece& piece = optimizer_.pieces()[i];
      const std::size_t p = optimizer_.parameter_of(piece);
      if (!chosen_[p]) continue;
      body(flat.narrow(0, begin_[p] + piece.begin, piece.count),
           optimizer_.gradients()[i].view(-1));
    }
  }

 private:
  ShardedOptimizer& optimizer_;
  std::vector<std::int64_t> begin_;  // by parameter, as the next
  std::vector<bool> chosen_;
  std::int64_t count_ = 0;
};

}  // namespace

Together::Together(MeshPlace place, const TogetherOptions& options)
    : place_(std::move(place)),
      op_(options.op),
      tensors_(std::make_shared<TensorRanks>(share_along(place_, Axis::kTensor), options.op,
                                             options.cuts_sequence)),
      sequences_(std::make_shared<ContextRanks>(share_along(place_, Axis::kContext),
                                                options.attention, options.op)) {}

Status Together::cut(models::Model& model) const {
  MUSTER_TRY(model.split(tensors_));
  return model.share_sequences(sequences_);
}

void Together::complete_norms(ShardedOptimizer& optimizer) const {
  if (parts().size == 1) return;
  optimizer.sum_norms(
      [this, &optimizer](std::vector<double> of_parts) -> Result<std::vector<double>> {
        if (of_parts.empty()) return of_parts;  // a stage without parameters
        MUSTER_ASSIGN(const auto by_part, gather(std::move(of_parts)));
        return whole_sums(optimizer.parameters(), by_part);
      });
}

Status Together::connect(comm::Communicator& communicator) const {
  if (parts().size > 1) {
    const auto holders = place_.part({Axis::kTensor});
    MUSTER_ASSIGN(auto ranks, communicator.split(holders.color, holders.key));
    tensors_->use(std::move(ranks));
  }
  if (sharers().size > 1) {
    const auto sharing = place_.part({Axis::kContext});
    MUSTER_ASSIGN(auto ranks, communicator.split(sharing.color, sharing.key));
    sequences_->use(std::move(ranks));
  }
  return ok();
}

std::vector<Axis> Together::axes_of_peers() {
  return {Axis::kReplicate, Axis::kShard, Axis::kContext};
}

comm::LeafOwners Together::leaves(const comm::LeafOwners& owners) const {
  comm::LeafOwners leaves;
  for (std::int32_t sharer = 0; sharer < sharers().size; ++sharer)
    for (const Rank owner : owners) {
      layout::Coordinates place = place_.mesh.coordinates(owner);
      place[Axis::kContext] = sharer;
      leaves.push_back(place_.mesh.rank(place));
    }
  return leaves;
}

std::uint64_t Together::take_bytes() const {
  return tensors_->take_bytes() + sequences_->take_bytes();
}

Error Together::cause_of(Error error) const {
  auto of_tensors = tensors_->take_failure(), of_sequences = sequences_->take_failure();
  if (of_tensors) return *std::move(of_tensors);
  return of_sequences ? *std::move(of_sequences) : std::move(error);
}

// Of a shard it has some rows, which need not be those of the other parts' shards.
Status Together::sum_addends(PeerUpdate& update) const {
  if (parts().size == 1) return ok();
  const WholeRows rows(update.optimizer(), tensors_->cuts_sequence());
  if (rows.count() == 0) return ok();
  const at::Tensor flat = at::zeros({rows.count()}, at::kFloat);
  rows.each(flat,
            [](const at::Tensor& place, const at::Tensor& gradient) { place.copy_(gradient); });
  MUSTER_TRY(sum_over_all(flat, update));
  rows.each(flat,
            [](const at::Tensor& place, const at::Tensor& gradient) { gradient.copy_(place); });
  return ok();
}

// Over the shards, of which each has other numbers and the others zeros, then over the parts.
Status Together::sum_over_all(const at::Tensor& flat, const PeerUpdate& update) const {
  if (update.peers().shards() > 1) {
    comm::OpOptions op = op_;
    op.label = "gradients of whole tensors";
    const comm::AllReduce sum{.buffer = view_over(flat)};
    MUSTER_TRY(update.peers().one_of_each()->submit(sum, op).wait());
  }
  const Status summed = models::catch_torch(
      "parallel/tensor", [&] { at::Tensor(flat).copy_(tensors_->sum(flat, "gradients")); });
  if (summed) return ok();
  return cause_of(summed.error());
}

Result<std::vector<std::vector<double>>> Together::gather(std::vector<double> own) const {
  if (parts().size == 1) return std::vector<std::vector<double>>{std::move(own)};
  at::Tensor all;
  const Status told = models::catch_torch("parallel/tensor", [&] {
    const TensorView view{DType::kF64, {std::ssize(own)}, std::as_writable_bytes(std::span(own))};
    all = tensors_->gather(tensor_over(view), "norms");
  });
  if (!told) return cause_of(told.error());
  const auto numbers = view_over(all).as<const double>();
  std::vector<std::vector<double>> by_part;
  for (std::size_t part = 0; part < static_cast<std::size_t>(parts().size); ++part) {
    const auto its = numbers.subspan(part * own.size(), own.size());
    by_part.emplace_back(its.begin(), its.end());
  }
  return by_part;
}

Result<std::vector<double>> Together::agree(const std::vector<models::Parameter>& parameters,
                                            std::vector<double> squares, StepReport& report) const {
  if (parts().size == 1) return squares;
  constexpr std::size_t kFlagsAt = 2, kSquaresAt = kFlagsAt + Flags::size();
  std::vector<double> own{report.loss, report.accuracy};
  own.insert(own.end(), report.flags.data(), report.flags.data() + Flags::size());
  own.insert(own.end(), squares.begin(), squares.end());
  MUSTER_ASSIGN(const auto all, gather(std::move(own)));
  report.loss = all.front()[0];
  report.accuracy = all.front()[1];
  for (std::size_t f = 0; f < Flags::size(); ++f) {
    double total = 0;
    for (const std::vector<double>& numbers : all) total += numbers[kFlagsAt + f];
    report.flags.data()[f] = static_cast<float>(total);
  }
  return whole_sums(parameters, all, kSquaresAt);
}

std::vector<double> Together::whole_sums(const std::vector<models::Parameter>& parameters,
                                         const std::vector<std::vector<double>>& by_part,
                                         std::size_t first) {
  std::vector<double> sums;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    double sum = by_part.front()[first + p];
    if (parameters[p].cut.is_part())
      for (std::size_t part = 1; part < by_part.size(); ++part) sum += by_part[part][first + p];
    sums.push_back(sum);
  }
  return sums;
}

std::vector<StateSlice> Together::own_part(std::vector<StateSlice> state,
                                           const models::Model& model) const {
  if (parts().rank == 0) return state;
  std::set<std::string> whole;
  for (const auto* parameters : {&model.parameters(), &model.expert_parameters(), &model.frozen()})
    for (const models::Parameter& parameter : *parameters)
      if (!parameter.cut.is_part()) whole.insert(parameter.name);
  for (const models::Statistic& statistic : model.statistics())
    if (!statistic.cut.is_part()) whole.insert(statistic.name);
  std::erase_if(state,
                [&](const StateSlice& slice) { return whole.contains(owner_in(slice.name)); });
  return state;
}

std::vector<EvaluationTotals> Together::by_leaf(std::span<const EvaluationTotals> by_slice) const {
  const auto slices = std::ssize(by_slice);
  std::vector<EvaluationTotals> totals(by_slice.size() * static_cast<std::size_t>(sharers().size));
  if (parts().rank == 0) std::ranges::copy(by_slice, totals.begin() + sharers().rank * slices);
  return totals;
}

}  // namespace muster::parallel
