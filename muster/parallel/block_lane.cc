#include "muster/parallel/block_lane.h"

#include <utility>

#include "muster/base/check.h"

namespace muster::parallel {
namespace {

constexpr std::size_t kMicro = 0;  // one pass at a time

layout::Partition each_block(const models::Model& model) {
  layout::Partition chunks;
  for (std::int32_t b = 0; b < static_cast<std::int32_t>(model.blocks().size()); ++b)
    chunks.push_back({b, b + 1});
  return chunks;
}

}  // namespace

BlockLane::BlockLane(std::unique_ptr<models::Model> model, models::Compute compute)
    : BlockLane(each_block(*model), std::move(model), compute) {}

BlockLane::BlockLane(layout::Partition each, std::unique_ptr<models::Model>&& model,
                     models::Compute compute)
    : stage_(std::move(model), std::move(each), compute) {}

void BlockLane::gather_by(WeightGathers& gathers, FirstUse first_use) {
  gathers_ = &gathers;
  first_use_ = std::move(first_use);
}

Result<Lane::Times> BlockLane::run(const Examples& examples, const LanePass& pass,
                                   std::span<const float> notes, const Clock& clock) {
  stage_.clear();  // of a pass that failed
  const TimePoint begin = clock.now();
  const std::size_t use = first_use_(pass.unit, pass.pass);
  tell("forward", pass.unit);
  MUSTER_TRY(forward(use, examples, pass, notes));
  const TimePoint middle = clock.now();
  tell("backward", pass.unit);
  MUSTER_TRY(backward(use + blocks(), pass));
  tell("", pass.unit);
  return Times{middle - begin, clock.now() - middle};
}

Status BlockLane::forward(std::size_t use, const Examples& examples, const LanePass& pass,
                          std::span<const float> notes) {
  StageModel::Loss loss;
  at::Tensor activation = examples.inputs;
  for (std::size_t b = 0; b < blocks(); ++b, ++use) {
    MUSTER_TRY(gathers_->enter(use));
    if (b + 1 < blocks())
      activation = stage_.forward(b, kMicro, activation, pass);
    else
      loss = stage_.forward_loss(b, kMicro, activation, examples.targets, pass);
    gathers_->leave(use);
  }
  stage_.add_extras(kMicro, loss, notes, pass);
  return ok();
}

Status BlockLane::backward(std::size_t use, const LanePass& pass) {
  at::Tensor gradient;
  for (std::size_t b = blocks(); b-- > 0; ++use) {
    MUSTER_TRY(gathers_->enter(use));
    gradient = stage_.backward(b, kMicro, gradient, pass);
    gathers_->leave(use);
  }
  return ok();
}

// It needs no weights, so nobody waits for it while it waits for others.
void BlockLane::run_empty(std::int32_t unit, std::span<const float> notes) {
  const std::size_t first = first_use_(unit, 0);
  for (std::size_t use = first; use < first + 2 * blocks(); ++use) gathers_->leave(use);
  stage_.add_nothing(unit, notes);
}

void BlockLane::warm_up(const Examples&) {
  MUSTER_CHECK(false, "nobody joins beside a training whose weights are cut");
}

}  // namespace muster::parallel
