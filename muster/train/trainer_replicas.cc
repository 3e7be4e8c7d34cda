// The trainer's eye on the bits that its workers should share.
#include <fmt/format.h>

#include <algorithm>

#include "muster/train/replicas.h"
#include "muster/train/trainer.h"

namespace muster::train {
namespace {

// One fault is an accident; more of them between the same two comparisons are a machine to throw
// away.
constexpr int kMostRollbacks = 3;

// To the same step.
bool all_can_go_back(const std::vector<ReplicaReport>& reports) {
  return reports.front().verified && std::ranges::all_of(reports, [&](const ReplicaReport& report) {
           return report.verified == reports.front().verified;
         });
}

// One or more of them are known to be wrong, and the others can go back to where all were right.
bool can_do_without_the_odd(const std::vector<ReplicaReport>& reports) {
  return odd_ones_out(reports) && all_can_go_back(reports);
}

std::vector<ReplicaReport> without_newcomers(std::vector<ReplicaReport> reports,
                                             const Course& course) {
  reports.resize(reports.size() - static_cast<std::size_t>(course.newcomers));
  return reports;
}

// Whose copy of the leader's state went wrong; where it was not copied, or those who had it before
// differ, who differs from most.
std::optional<std::vector<Rank>> odd_at_entry(const std::vector<ReplicaReport>& reports,
                                              const Course& course) {
  if (!course.copies && course.newcomers == 0) return odd_ones_out(reports);
  const auto& leader = reports[static_cast<std::size_t>(to_int(course.leader))];
  if (leader.guilty) return std::nullopt;
  std::vector<Rank> odd;
  for (std::size_t rank = 0; rank < reports.size(); ++rank)
    if (reports[rank].sum != leader.sum) odd.push_back(Rank{static_cast<std::int32_t>(rank)});
  const auto old = static_cast<std::int32_t>(reports.size()) - course.newcomers;
  if (course.newcomers > 0 && !odd.empty() && to_int(odd.front()) < old)
    return odd_ones_out(reports);
  return odd;
}

std::string other_weights(Step step) {
  return fmt::format("held other weights than the others after step {}", to_int(step));
}

Error disagree_in(Step step) {
  return fail(ErrorCode::kNumeric,
              fmt::format("[train/replicas] the workers' reduced gradients differ in step {}, "
                          "however often it is taken; their memory or processors are faulty, or "
                          "they run different programs",
                          to_int(step)));
}

}  // namespace

std::int32_t Trainer::worker_at(Rank rank) const {
  return parts_.generations.current().workers[static_cast<std::size_t>(to_int(rank))];
}

// Also before a best metric outlives the step; before a checkpoint does, see
// ask_before_comparing(). While newcomers get the state, only then.
bool Trainer::replicas_due() const {
  const Step step = progress_.committed;
  const bool evaluates = evaluation_due_.due(step) || due_by_flag(parallel::Flag::kEvaluate) ||
                         progress_.owes_evaluation || position_.evaluated == step;
  return (!transfer_ && replicas_due_.due(step)) || evaluates ||
         due_by_flag(parallel::Flag::kStop) || step == guard_.disputed();
}

bool Trainer::compares_replicas() const {
  return group().size > 1 && options_.replicas.compare_every != job::Interval::never();
}

// All parts are with as many.
std::int32_t Trainer::holders_of_part() const {
  const std::int32_t own = parts_.strategy.part_of(group().rank);
  std::int32_t count = 0;
  for (std::int32_t rank = 0; rank < holders(); ++rank)
    count += parts_.strategy.part_of(Rank{rank}) == own ? 1 : 0;
  return count;
}

// Of two who differ no majority tells who is wrong: each has to watch itself. So it has while steps
// are taken again to see.
bool Trainer::guards_memory() const {
  if (!compares_replicas() || !has_state()) return false;
  return holders() == 2 || holders_of_part() == 2 || guard_.disputed();
}

ReplicaReport Trainer::report_state() const {
  ReplicaReport report = guard_.report();
  report.part = parts_.strategy.part_of(group().rank);
  return report;
}

Result<std::vector<ReplicaReport>> Trainer::exchange(const ReplicaReport& mine,
                                                     std::string_view what) {
  parts_.now_doing(progress_.committed, what);
  return exchange_unseen(mine, what);
}

Result<std::vector<ReplicaReport>> Trainer::exchange_unseen(const ReplicaReport& mine,
                                                            std::string_view what) {
  const TimePoint began = parts_.clock.now();
  auto reports = exchange_reports(*parts_.generations.current().communicator, mine, op_for(what));
  between_.comparing += parts_.clock.now() - began;
  return reports;
}

// Whether the step may be settled: nobody goes back, and this worker stays.
Result<bool> Trainer::compare_replicas(bool saves) {
  if (!compares_replicas() || !(saves || replicas_due())) return true;
  MUSTER_ASSIGN(auto reports,
                exchange(has_state() ? report_state() : ReplicaReport{}, "comparing replicas"));
  reports.resize(static_cast<std::size_t>(holders()));
  if (!are_equal(reports)) {
    const bool waits = transfer_ && !can_do_without_the_odd(reports);
    MUSTER_TRY(waits ? complete_transfer() : settle_dispute(reports));
    return false;
  }
  if (progress_.committed == guard_.disputed()) MUSTER_TRY(name_the_wrong());
  if (position_.next == Next::kLeave) return false;
  if (!transfer_ && replicas_due_.due(progress_.committed)) guard_.trust(progress_);
  return true;
}

// How all begin in a generation.
Status Trainer::verify_entry(const Course& course) {
  if (!compares_replicas()) {
    guard_.forget_update();
    return ok();
  }
  MUSTER_ASSIGN(const auto reports, exchange(report_state(), "comparing replicas"));
  if (!are_equal(reports)) {
    const auto old = without_newcomers(reports, course);
    const bool began_anew = course.newcomers > 0 && !are_equal(old) && all_can_go_back(old);
    if (began_anew) return settle_among_old(old, course);
    if (all_can_go_back(reports)) return settle_dispute(reports);
    const auto odd = odd_at_entry(reports, course);
    if (!odd) return disagree("from the beginning of the generation");
    MUSTER_TRY(send_away(*odd));
  }
  guard_.forget_update();
  guard_.trust(progress_);
  return ok();
}

// The same, where some have just got their parts from others.
Status Trainer::verify_reunion(const Entry& entry, const Reunion& reunion) {
  if (reunion.same || !compares_replicas()) return verify_entry({.leader = reunion.leader});
  MUSTER_ASSIGN(const auto reports, exchange(report_state(), "comparing replicas"));
  if (!are_equal(reports)) {
    if (all_can_go_back(reports)) return settle_dispute(reports);
    const auto wrong = copied_wrong(reports, reunion.sources);
    if (wrong.empty()) return plan_return(entry, reunion);
    MUSTER_TRY(send_away(wrong));
  }
  guard_.forget_update();
  guard_.trust(progress_);
  return ok();
}

// Whoever goes ends the generation by it; before that all must know whom they accuse.
Status Trainer::send_away(const std::vector<Rank>& odd) {
  bool goes = false;
  const std::string what = other_weights(progress_.committed);
  for (const Rank rank : odd) goes |= accuse(worker_at(rank), what);
  MUSTER_TRY(meet(op_for("comparing replicas")));
  if (goes) go(what);
  return ok();
}

Error Trainer::disagree(std::string_view since) const {
  return fail(ErrorCode::kNumeric,
              fmt::format("[train/replicas] the workers' weights differ after step {}, {}; their "
                          "memory or processors are faulty, or they run different programs",
                          to_int(progress_.committed), since));
}

// Somebody's bits are wrong, and since when nobody knows: what he has computed from them is in
// everybody's. So all go back to where they were the same, without him if it is known who he is;
// else the steps are taken again, which tells. Of `reports` only: ranks behind them have just got,
// or still get, a state that came of the wrong bits, and get it anew: with the next generation,
// which whoever goes brings about, or see settle_among_old().
Status Trainer::settle_dispute(const std::vector<ReplicaReport>& reports) {
  const auto odd = odd_ones_out(reports);
  const bool newcomer = static_cast<std::size_t>(to_int(group().rank)) >= reports.size();
  const Step step = progress_.committed;
  const std::string what = other_weights(step);
  if (guard_.times_gone_back() >= kMostRollbacks) return disagree("again and again");
  bool goes = false;
  if (odd) {
    for (const Rank rank : *odd) goes |= accuse(worker_at(rank), what);
  } else {
    guard_.dispute(step);
  }
  const bool first_goes = odd && std::ranges::count(*odd, Rank{0}) > 0;
  // Whoever takes its rank does not go back either.
  if (first_goes && is_first() && options_.keeps_ranks) {
    parts_.hub.publish(return_from(step, guard_.verified()));
    tell_rollback(step, guard_.verified(), position_.rollbacks + 1);
  }
  if (!goes && !newcomer) MUSTER_TRY(roll_back(first_goes));
  // Whoever goes ends the generation by it; before that all must know that they have to go back.
  MUSTER_TRY(meet(op_for("going back")));
  if (goes) go(what);
  // What strategies have made of their tensors is made of others now.
  if (!odd && options_.keeps_ranks)
    return parts_.strategy.enter(parts_.generations.current().communicator, assignment_.owners);
  if (!newcomer || !odd) return ok();
  whole_ = false;
  return follow(std::nullopt);
}

// Newcomers have their state from those who differ. Where nobody knows who is wrong, they get it
// again once those have gone back, and take part in the steps that tell.
Status Trainer::settle_among_old(const std::vector<ReplicaReport>& old, const Course& course) {
  MUSTER_TRY(settle_dispute(old));
  if (odd_ones_out(old)) return ok();
  MUSTER_TRY(begin_transfer(course, op_for("entering a generation")));
  return take_up(share(parts_.generations.current().workers));
}

Status Trainer::roll_back(bool first_goes) {
  const Step from = progress_.committed;
  let_readers_finish();
  const Progress& then = guard_.go_back();
  progress_.committed = then.committed;
  progress_.cursor = then.cursor;
  progress_.optimizer_steps = then.optimizer_steps;
  progress_.loss_scale = then.loss_scale;
  ++position_.rollbacks;
  progress_.first_loss = then.first_loss;
  divergence_ = DivergenceGuard(then.first_loss);
  position_.losses = {};
  position_.settled = true;
  position_.flags = {};
  tell_rollback(from, then.committed, position_.rollbacks);
  const observe::Notice notice = return_from(from, then.committed);
  if (is_first()) parts_.hub.publish(notice);
  if (first_goes && !options_.keeps_ranks) owed_ = notice;  // it does not go back itself
  return open_stream();
}

// Those who take over tell only what counts.
void Trainer::tell_rollback(Step from, Step to, std::int64_t rollbacks) {
  std::erase_if(position_.rows, [to](const observe::Record& row) {
    const auto* metrics = std::get_if<observe::Metrics>(&row);
    const auto* committed = std::get_if<observe::StepCommitted>(&row);
    return (metrics && metrics->step > to) || (committed && committed->step > to);
  });
  tell(observe::WentBack{
      .to = to, .generation = group().generation, .from = from, .rollbacks = rollbacks});
}

observe::Notice Trainer::return_from(Step from, Step to) const {
  return {.severity = observe::Severity::kWarning,
          .text = fmt::format("the workers' weights differ after step {}: all go back to step {}, "
                              "where they were the same{}",
                              to_int(from), to_int(to),
                              from == guard_.disputed() ? ", to see who is wrong" : "")};
}

// Numbers that run away on all workers may come from one whose bits are wrong: its gradients are in
// everybody's sums. Then it goes as with any other wrong bits; else `why` stands.
Status Trainer::look_for_wrong_bits(const Error& why) {
  if (why.code != ErrorCode::kNumeric) return why;
  if (compares_replicas() && !transfer_ && !finishing_) {
    if (guards_memory()) guard_.before_update();
    // It is told as being where it came to those numbers.
    const auto reports = exchange_unseen(report_state(), "comparing replicas");
    if (reports && !are_equal(*reports)) return settle_dispute(*reports);
  }
  // Weights that were evaluated have a loss; whatever came after, nobody needs to do without them.
  ruined_ = position_.evaluated != progress_.committed;
  return why;
}

// The steps between have been taken again, and all agree. Who was wrong first has made the others
// wrong with his gradients; where several were at once, nobody can be told from the others.
Status Trainer::name_the_wrong() {
  const Step step = progress_.committed;
  const ReplicaReport mine{.sum = {.shared = static_cast<std::uint64_t>(guard_.diverged())}};
  MUSTER_ASSIGN(const auto reports, exchange(mine, "telling who was wrong"));
  const auto step_of = [](const ReplicaReport& report) { return report.sum.shared; };
  const auto first = std::ranges::min_element(reports, {}, step_of);
  if (std::ranges::count(reports, first->sum, &ReplicaReport::sum) > 1) return ok();
  const Rank rank{static_cast<std::int32_t>(first - reports.begin())};
  const std::string what = other_weights(step);
  if (accuse(worker_at(rank), what)) go(what);
  return ok();
}

// Whether it is this one.
bool Trainer::accuse(std::int32_t worker, std::string_view of_what) {
  const auto& workers = parts_.generations.current().workers;
  if (std::ranges::find(workers, worker) == workers.end()) return false;  // gone in the meantime
  tell_of_worker(worker, observe::Severity::kWarning,
                 fmt::format("{}: its memory or processor is faulty, or computes differently "
                             "(training.isa)",
                             of_what));
  return worker == worker_at(group().rank);
}

void Trainer::go(std::string_view because) {
  parts_.generations.quarantine(
      fail(ErrorCode::kCorrupt,
           fmt::format("[train/replicas] worker {} {}", worker_at(group().rank), because),
           group().rank));
  position_.next = Next::kLeave;
}

// ---- gradients, before the update with them

bool Trainer::compares_gradients(Step step) const {
  return group().size > 1 && gradients_due_.due(step);
}

Status Trainer::compare_gradients(Step step, std::uint64_t checksum) {
  MUSTER_ASSIGN(const auto reports,
                exchange(gradients_.report(step, checksum, parts_.strategy.part_of(group().rank)),
                         "comparing gradients"));
  using Verdict = GradientDispute::Verdict;
  const auto ruling = gradients_.judge(step, checksum, reports);
  if (ruling.verdict == Verdict::kSame) return ok();
  const std::string what =
      fmt::format("got other reduced gradients than the others in step {}", to_int(step));
  if (ruling.verdict == Verdict::kHopeless) return disagree_in(step);
  bool goes = false;
  for (const Rank rank : ruling.wrong) goes |= accuse(worker_at(rank), what);
  if (is_first() && ruling.verdict == Verdict::kAgain) {
    parts_.hub.publish(observe::Notice{
        .severity = observe::Severity::kWarning,
        .text = fmt::format("the workers' reduced gradients differ in step {}: it is taken again, "
                            "to see who is wrong",
                            to_int(step))});
  }
  // Whoever goes ends the generation by it; before that all must know whom they accuse.
  MUSTER_TRY(meet(op_for("comparing gradients")));
  if (goes) go(what);
  if (ruling.verdict == Verdict::kNamed && !goes) return ok();
  return fail(ErrorCode::kCorrupt,
              fmt::format("[train/replicas] step {} is not updated with gradients that differ",
                          to_int(step)));
}

// After a step that failed.
bool Trainer::takes_again() noexcept {
  return gradients_.takes_again() || position_.next == Next::kLeave;
}

// Nothing was updated with the sums of this step. Where somebody goes, the generation ends under
// it.
Status Trainer::take_again() {
  if (position_.next == Next::kLeave) return ok();
  return finishing_ ? share_out() : open_stream();
}

}  // namespace muster::train
