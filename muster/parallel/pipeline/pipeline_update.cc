// How a pipeline's step ends: what all stages have to know of it, and the update.
#include <algorithm>

#include "muster/parallel/check_and_clip.h"
#include "muster/parallel/combine.h"
#include "muster/parallel/extras.h"
#include "muster/parallel/pipeline/pipeline.h"

namespace muster::parallel {

// Whatever comes of the step, what was updated too early is rolled back.
Status Pipeline::conclude(const StepInput& input, StepReport& report) {
  const auto divisor = validate(input, report);
  ShardedOptimizer& optimizer = update_->optimizer();
  const bool stands =
      divisor && *divisor && optimizer.is_ahead_with(input.learning_rate, **divisor);
  if (!stands && optimizer.is_ahead()) {
    optimizer.roll_back();
    if (input.rolled_back) input.rolled_back();
  }
  if (!divisor) return divisor.error();
  if (!*divisor) return ok();
  if (!stands && input.before_update) report.times.checkpoint_stall += input.before_update();
  const TimePoint updating = clock_.now();
  MUSTER_TRY(lane_.run([&](std::int32_t) { return update(input.learning_rate, **divisor); }));
  report.times.update += clock_.now() - updating;
  return ok();
}

// What one stage knows all have to know. Until they do it updates already, where what it knows by
// itself allows that. What comes is what to divide by, as check_and_clip() has it.
Result<std::optional<double>> Pipeline::validate(const StepInput& input, StepReport& report) {
  MUSTER_TRY(read_extras(exchange_->sum(0), input, report));
  MUSTER_ASSIGN(const std::vector<double> own, update_->squared_norms());
  std::optional<double> so_far;
  if (updates_ahead()) so_far = divisor_so_far(input, own, options_.max_grad_norm, report);
  const StageTotals totals = totals_of(report, own, so_far.has_value());
  comm::OpOptions op = options_.op;
  op.label = "norms";
  const comm::Work sum = totals.sum(*communicator_, op);
  const Status begun = so_far ? update_ahead(input, *so_far, sum, report) : ok();
  MUSTER_TRY(sum.wait());
  MUSTER_TRY(begun);
  totals.read(report);
  const auto metrics = model().metrics(statistics_in(exchange_->sum(0), model()));
  MUSTER_ASSIGN(report.model_metrics,
                combine_metrics(*communicator_, metric_names_, metrics, options_.op));
  const std::vector<double> squares = totals.squares();
  auto divisor = check_and_clip(input, parameter_names_, squares, options_.max_grad_norm, report);
  // Alike on every rank: those that are ahead have divided by the scale of the loss alone.
  const bool stands = divisor && *divisor == input.loss_scale.value_or(1);
  if (options_.optimizer_first) report.rollbacks = stands ? 0 : totals.ahead();
  return divisor;
}

// One replica speaks for all, which have the same sums, and of several ranks that have the same the
// first.
StageTotals Pipeline::totals_of(const StepReport& report, std::span<const double> own,
                                bool ahead) const {
  const auto [part, parts] = together_.parts();
  StageTotals totals(parameter_names_.size(), static_cast<std::size_t>(parts));
  if (place_.first_of(place_.group.rank, Together::axes_of_peers()) != place_.group.rank)
    return totals;
  if (part == 0) totals.put_loss(report);
  totals.put_flags(report);
  if (ahead) totals.put_ahead();
  put_squares(own, totals);
  return totals;
}

// Of the parameters that this rank owns.
void Pipeline::put_squares(std::span<const double> own, StageTotals& totals) const {
  const auto part = together_.parts().rank;
  const auto& owned = stage_->owned();
  for (std::size_t i = 0; i < owned.size(); ++i) {
    const models::Parameter& parameter = model().parameters()[owned[i]];
    if (part > 0 && !parameter.cut.is_part()) continue;
    const auto place = std::ranges::find(parameter_names_, parameter.name);
    totals.put_square(static_cast<std::size_t>(place - parameter_names_.begin()),
                      static_cast<std::size_t>(part), own[i]);
  }
}

Status Pipeline::update_ahead(const StepInput& input, double divisor, const comm::Work& deciding,
                              StepReport& report) {
  if (input.before_update) report.times.checkpoint_stall = input.before_update();
  const TimePoint updating = clock_.now();
  const Status begun = lane_.run([&](std::int32_t) {
    update_->optimizer().update_ahead(input.learning_rate, divisor,
                                      [&] { return deciding.done(); });
    return ok();
  });
  report.times.update = clock_.now() - updating;
  return begun;
}

Status Pipeline::update(double learning_rate, double divisor) {
  gathered_model_.forget();  // whoever read it has finished
  gathered_optimizer_.forget();
  mirror_.changed();
  MUSTER_TRY(update_->update(learning_rate, divisor));
  const auto statistics = statistics_in(exchange_->sum(0), model());
  if (!statistics.empty()) model().apply_statistics(statistics);
  return tied_->share(model(), *links_);
}

}  // namespace muster::parallel
