// Evaluation by SliceGradients: slices through the lanes, forward only.
#include <fmt/format.h>

#include <atomic>
#include <utility>

#include "muster/parallel/combine.h"
#include "muster/parallel/slice_gradients.h"

namespace muster::parallel {

Status SliceGradients::evaluate(const data::StepBatch& batch,
                                std::span<EvaluationTotals> by_slice) {
  if (gathers_) return evaluate_by_block(batch, by_slice);
  std::atomic<std::size_t> next{0};
  return pool_.run([&](std::int32_t lane) -> Status {
    const at::NoGradGuard no_grad;
    models::Model& model = lanes_[static_cast<std::size_t>(lane)]->model();
    for (std::size_t s = 0; (s = next++) < batch.slices.size();) {
      const data::SliceBatch& slice = batch.slices[s];
      if (slice.samples == 0 && !options_.runs_empty) continue;
      options_.computing(lane, fmt::format("evaluation of slice {}", to_int(slice.slice)));
      const Examples examples = examples_of(slice);
      models::PassContext context = evaluation_context();
      by_slice[static_cast<std::size_t>(to_int(slice.slice))].add(
          model.evaluation_loss_sum(model.forward(examples.inputs, context), examples.targets));
    }
    options_.computing(lane, "");
    return ok();
  });
}

models::PassContext SliceGradients::evaluation_context() const {
  return {.training = false,
          .random = RandomStream(options_.seed, "none"),
          .compute = options_.compute};
}

// All slices through one block, then through the next: each block's weights come once.
Status SliceGradients::evaluate_by_block(const data::StepBatch& batch,
                                         std::span<EvaluationTotals> by_slice) {
  std::vector<Evaluated> slices;
  for (const data::SliceBatch& slice : batch.slices)
    if (slice.samples > 0)
      slices.push_back({slice.slice, examples_of(slice),
                        &by_slice[static_cast<std::size_t>(to_int(slice.slice))]});
  const std::size_t blocks = model().blocks().size();
  MUSTER_TRY(gathers_->begin(layout::uses_of_evaluation(blocks)));
  for (std::size_t block = 0; block < blocks; ++block) {
    MUSTER_TRY(gathers_->enter(block));
    const Status ran = evaluate_block(block, slices);
    if (!ran) give_up(ran.error());
    MUSTER_TRY(ran);
    gathers_->leave(block);
  }
  return gathers_->finish();
}

Status SliceGradients::evaluate_block(std::size_t block, std::vector<Evaluated>& slices) {
  std::atomic<std::size_t> next{0};
  return pool_.run([&](std::int32_t lane) -> Status {
    const at::NoGradGuard no_grad;
    models::Model& model = lanes_[static_cast<std::size_t>(lane)]->model();
    for (std::size_t s = 0; (s = next++) < slices.size();) {
      auto& [slice, examples, totals] = slices[s];
      options_.computing(lane, fmt::format("evaluation of slice {}", to_int(slice)));
      models::PassContext context = evaluation_context();
      examples.inputs = model.forward_block(block, std::move(examples.inputs), context);
      if (block + 1 == model.blocks().size())
        totals->add(model.evaluation_loss_sum(examples.inputs, examples.targets));
    }
    options_.computing(lane, "");
    return ok();
  });
}

Result<EvaluationTotals> SliceGradients::combine(std::span<const EvaluationTotals> by_slice) {
  return combine_totals(*communicator_, by_slice, lanes_.front()->model().measures(), options_.op);
}

}  // namespace muster::parallel
