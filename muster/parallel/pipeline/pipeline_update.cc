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
  const bool stands =
      divisor && *divisor && std::ranges::all_of(updates(), [&](PeerUpdate* update) {
        return update->optimizer().is_ahead_with(input.learning_rate, **divisor);
      });
  if (!stands && is_ahead()) {
    for (PeerUpdate* const update : updates()) update->optimizer().roll_back();
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

bool Pipeline::updates_ahead() const {
  return options_.optimizer_first && std::ranges::all_of(updates(), [](PeerUpdate* update) {
           return update->optimizer().can_update_ahead();
         });
}

bool Pipeline::is_ahead() const {
  return std::ranges::any_of(updates(),
                             [](PeerUpdate* update) { return update->optimizer().is_ahead(); });
}

// Of the parameters that this rank owns, then of the experts that it has been dealt.
Result<std::vector<double>> Pipeline::squared_norms() {
  std::vector<double> own;
  for (PeerUpdate* const update : updates()) {
    MUSTER_ASSIGN(const std::vector<double> squares, update->squared_norms());
    own.insert(own.end(), squares.begin(), squares.end());
  }
  return own;
}

// What one stage knows all have to know. Until they do it updates already, where what it knows by
// itself allows that. What comes is what to divide by, as check_and_clip() has it.
Result<std::optional<double>> Pipeline::validate(const StepInput& input, StepReport& report) {
  MUSTER_TRY(read_extras(exchange_->sum(0), input, report));
  MUSTER_ASSIGN(const std::vector<double> own, squared_norms());
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
// first: of what is no dealt expert's, and of the experts, which each holder has others of.
StageTotals Pipeline::totals_of(const StepReport& report, std::span<const double> own,
                                bool ahead) const {
  const auto [part, parts] = together_.parts();
  StageTotals totals(parameter_names_.size(), static_cast<std::size_t>(parts));
  const Rank me = place_.group.rank;
  if (place_.first_of(me, Together::axes_of_peers()) != me) return totals;
  if (ahead) totals.put_ahead();
  const auto& owned = stage_->owned();
  for (std::size_t i = owned.size(); i < own.size(); ++i)
    put_square(model().expert_parameters()[i - owned.size()], own[i], totals);
  if (place_.first_of(me, axes_of_peers()) != me) return totals;
  if (part == 0) totals.put_loss(report);
  totals.put_flags(report);
  for (std::size_t i = 0; i < owned.size(); ++i)
    put_square(model().parameters()[owned[i]], own[i], totals);
  return totals;
}

// Of what is alike on all parts the first one's.
void Pipeline::put_square(const models::Parameter& parameter, double square,
                          StageTotals& totals) const {
  const auto part = together_.parts().rank;
  if (part > 0 && !parameter.cut.is_part()) return;
  const auto place = std::ranges::find(parameter_names_, parameter.name);
  totals.put_square(static_cast<std::size_t>(place - parameter_names_.begin()),
                    static_cast<std::size_t>(part), square);
}

Status Pipeline::update_ahead(const StepInput& input, double divisor, const comm::Work& deciding,
                              StepReport& report) {
  if (input.before_update) report.times.checkpoint_stall = input.before_update();
  const TimePoint updating = clock_.now();
  const Status begun = lane_.run([&](std::int32_t) {
    for (PeerUpdate* const update : updates())
      update->optimizer().update_ahead(input.learning_rate, divisor,
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
  for (PeerUpdate* const update : updates()) MUSTER_TRY(update->update(learning_rate, divisor));
  const auto statistics = statistics_in(exchange_->sum(0), model());
  if (!statistics.empty()) model().apply_statistics(statistics);
  return tied_->share(model(), *links_);
}

}  // namespace muster::parallel
