#pragma once
// A lane that runs the model block by block, forward and back, with weights that are there for a
// block's pass only (weight_gathers.h). Between two blocks the graph is cut, as between the chunks
// of a pipeline: the same operations on the same values, so the same bits. A block's gradients are
// all handed on when its backward is over, also those of parameters that it did not use: no rank
// waits for a block of another one longer than that.

#include <functional>
#include <memory>
#include <span>

#include "muster/parallel/lane.h"
#include "muster/parallel/pipeline/stage_model.h"
#include "muster/parallel/weight_gathers.h"

namespace muster::parallel {

class BlockLane final : public Lane {
 public:
  BlockLane(std::unique_ptr<models::Model> model, models::Compute compute);

  // Of a unit's pass: the first of its uses, forward through all blocks and back.
  using FirstUse = std::function<std::size_t(std::int32_t unit, std::int32_t pass)>;
  // Where weights come from now on; outlives its use.
  void gather_by(WeightGathers& gathers, FirstUse first_use);

  void use(GradientSink& sink) noexcept override { stage_.use(sink); }
  models::Model& model() noexcept override { return stage_.model(); }
  // An error where weights did not come.
  Result<Times> run(const Examples& examples, const LanePass& pass, std::span<const float> notes,
                    const Clock& clock) override;
  void run_empty(std::int32_t unit, std::span<const float> notes) override;
  void warm_up(const Examples& examples) override;

 private:
  BlockLane(layout::Partition each, std::unique_ptr<models::Model>&& model,
            models::Compute compute);
  std::size_t blocks() noexcept { return stage_.model().blocks().size(); }
  Status forward(std::size_t use, const Examples& examples, const LanePass& pass,
                 std::span<const float> notes);
  Status backward(std::size_t use, const LanePass& pass);

  StageModel stage_;
  WeightGathers* gathers_ = nullptr;
  FirstUse first_use_;
};

}  // namespace muster::parallel
