#pragma once
// The optimizer of the parameters that a rank holds, or of its shard of these (ZeRO: Rajbhandari et
// al., SC 2020): it keeps the state of some of their rows, and updates those. In ordered mode the
// same bits as of all rows at once: shards are cut at borders of cells, in which norms are summed
// as well (optim/cells.h). Where the gradients come from and who needs the new weights is its
// owner's business. One thread.

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/result.h"
#include "muster/base/tensor_slice.h"
#include "muster/comm/communicator.h"
#include "muster/models/model.h"
#include "muster/optim/cells.h"
#include "muster/optim/norm_scaled.h"
#include "muster/optim/optimizer.h"
#include "muster/parallel/host_mirror.h"
#include "muster/parallel/shard_plan.h"
#include "muster/parallel/update_ahead.h"

namespace muster::parallel {

// Runs a body for items [0, count), dealt to threads in ranges.
using OnLanes =
    std::function<Status(std::size_t count, const std::function<void(std::size_t, std::size_t)>&)>;

class ShardedOptimizer {
 public:
  // `parameters`: in the model's order; the gradient of parameters[i] is in slot n - i of a bucket
  // layout, as lanes have them. Keeps the state of all.
  static Result<std::unique_ptr<ShardedOptimizer>> create(std::vector<models::Parameter> parameters,
                                                          optim::CreateOptimizer create,
                                                          OnLanes on_lanes);

  // How so many ranks would share the state out. `layout`: with the first slot alone.
  ShardPlan plan_for(const BucketLayout& layout, std::int32_t shards) const;
  // Keeps that shard of the state alone, with the values that it has. `rows`: of the parameters,
  // in the place of those in the model. Once.
  Status keep(ShardPlan plan, Rank shard, std::vector<at::Tensor> rows = {});
  std::int32_t shards() const noexcept { return static_cast<std::int32_t>(plan_.pieces.size()); }
  Rank shard() const noexcept { return shard_; }
  const ShardPlan& plan() const noexcept { return plan_; }

  // What it updates, and its rows of the parameters, by piece; in the model's order.
  const std::vector<ShardPiece>& pieces() const noexcept { return pieces_; }
  const std::vector<at::Tensor>& rows() const noexcept { return rows_; }
  const std::vector<models::Parameter>& parameters() const noexcept { return parameters_; }
  std::size_t parameter_of(const ShardPiece& piece) const {
    return parameters_.size() - static_cast<std::size_t>(piece.slot);
  }

  // Where the summed gradient of a piece lies, from now on.
  void lay_over(const std::function<std::span<float>(const ShardPiece&)>& sum_of);
  const std::vector<at::Tensor>& gradients() const noexcept { return gradients_; }  // by piece
  // With several shards: one rank of each, in order; who tells others of its norms from now on.
  void meet(std::shared_ptr<comm::Communicator> one_of_each, comm::OpOptions op);

  // Where other ranks have other parts of the parameters: makes whole tensors' sums of the sums
  // over this rank's parts, by parameter; the same on all of these ranks.
  using OverParts = std::function<Result<std::vector<double>>(std::vector<double> of_parts)>;
  // Then trust ratios are those of whole tensors, and update() is collective over these ranks too.
  void sum_norms(OverParts over_parts) { over_parts_ = std::move(over_parts); }

  // By parameter, of what this rank has a part or a shard of. Collective where there are several
  // shards, as is update().
  Result<std::vector<double>> squared_norms();
  Status update(double learning_rate, double divisor);

  // An update that begins before it is known whether it may be (update_ahead.h). Local. Not where
  // others have a part in the norms of tensors that it needs, nor where the state is offloaded.
  bool can_update_ahead() const;
  // With can_update_ahead(), until `decided`. update() goes on with it; where that has other
  // numbers, it rolls back first.
  void update_ahead(double learning_rate, double divisor, const std::function<bool()>& decided);
  bool is_ahead() const noexcept { return ahead_ && ahead_->has_begun(); }
  bool is_ahead_with(double learning_rate, double divisor) const noexcept {
    return ahead_ && ahead_->has_begun_with(learning_rate, divisor);
  }
  void roll_back();             // where it is ahead
  std::uint64_t ahead_bytes();  // that it then keeps of what was before, at most

  // On the host, as slices; what is written there becomes the state's when it is loaded().
  std::vector<TensorSlice> state();
  std::uint64_t state_bytes() { return optimizer_->state_bytes(); }
  // By piece.
  const std::vector<at::Tensor>& average() const noexcept { return optimizer_->average(); }
  void loaded(std::int64_t steps);       // updates so far
  void changed() { mirror_.changed(); }  // the state, by other means

 private:
  ShardedOptimizer(std::vector<models::Parameter> parameters, optim::CreateOptimizer create,
                   OnLanes on_lanes);
  at::Tensor rows_of(const at::Tensor& whole, const ShardPiece& piece) const;
  std::vector<at::Tensor> rows_in_model(const std::vector<ShardPiece>& pieces) const;
  Result<std::unique_ptr<optim::Optimizer>> optimizer_of(const std::vector<ShardPiece>& pieces,
                                                         const std::vector<at::Tensor>& rows) const;
  std::map<std::string, const ShardPiece*> by_name(const std::vector<ShardPiece>& pieces) const;
  std::vector<at::Tensor> state_of(const std::vector<ShardPiece>& pieces) const;
  Status hold(ShardPlan plan, Rank shard, std::vector<at::Tensor> rows);
  std::ptrdiff_t first_cell_of(const ShardPiece& piece) const;  // among those of all parameters
  void add_squares(const ShardPiece& piece, const at::Tensor& gradient,
                   std::vector<double>& by_cell) const;
  Result<std::vector<double>> sum_by_parameter(std::vector<double> by_cell, std::string_view label);
  std::vector<at::Tensor> gradients_by_rows() const;
  optim::NormScaled* scaled_among_ranks() const noexcept;
  std::vector<std::vector<at::Tensor>> written_tensors() const;
  Status update_pieces(std::size_t first, std::span<const at::Tensor> gradients, double divisor);
  Result<std::vector<double>> whole_squares(const optim::NormScaled& optimizer,
                                            double optim::NormSquares::*member);
  Status update_scaled(optim::NormScaled& optimizer, std::span<const at::Tensor> gradients,
                       double divisor);

  const std::vector<models::Parameter> parameters_;
  const optim::CreateOptimizer create_;
  const OnLanes on_lanes_;
  OverParts over_parts_;                 // none: no other rank has other parts
  std::vector<optim::Cells> cells_;      // by parameter
  std::vector<std::size_t> first_cell_;  // by parameter, among those of all; last: their number

  ShardPlan plan_;
  Rank shard_{0};
  std::vector<ShardPiece> pieces_;
  std::vector<at::Tensor> rows_;  // of the parameters, by piece
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<UpdateAhead> ahead_;  // once there has been one
  HostMirror mirror_;                   // of its state

  // Of the present generation:
  std::vector<at::Tensor> gradients_;  // over sums, by piece
  std::shared_ptr<comm::Communicator> one_of_each_;
  comm::OpOptions op_;
};

}  // namespace muster::parallel
