// The trainer from one generation to the next.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "muster/base/phases.h"
#include "muster/base/units.h"
#include "muster/train/recovery.h"
#include "muster/train/trainer.h"

namespace muster::train {
namespace {

// The first steps of a generation are not like the others: kernels are compiled, caches are cold.
constexpr std::int64_t kStepsBeforeComparing = 5;
// A newcomer keeps no more updates than that: the others wait then until it has the state.
constexpr std::int64_t kMostMissed = 64;

// The part of the state that each rank has, where all have everything.
std::vector<std::int32_t> all_alike(const std::vector<Standing>& standings) {
  return std::vector<std::int32_t>(standings.size(), 0);
}

// With other samples, or in another order, its part of a sum would be of something else. Who has
// the others' state to get, or else the later one, is the one who is wrong.
Status check_data(const std::vector<Standing>& standings, const Standing& mine) {
  const auto first = std::ranges::find(standings, true, &Standing::whole);
  if (first == standings.end() || first->data == mine.data) return ok();
  return fail(ErrorCode::kInvalid,
              fmt::format("[train/data] the data here is not what rank {} trains on: other files, "
                          "other rows or another number of them; compare what lies at data.path on "
                          "both hosts",
                          first - standings.begin()));
}

}  // namespace

bool Trainer::is_first() const noexcept { return group().rank == Rank{0}; }

const comm::Group& Trainer::group() const noexcept {
  return parts_.generations.current().communicator->group();
}

comm::OpOptions Trainer::op_for(std::string_view label) const {
  comm::OpOptions op = options_.op;
  op.label = label;
  return op;
}

comm::OpOptions Trainer::patient_op(std::string_view label, Duration patience) const {
  comm::OpOptions op = op_for(label);
  op.timeout = std::max(op.timeout, patience);
  return op;
}

Status Trainer::meet(const comm::OpOptions& op) {
  return parts_.generations.current().communicator->submit(comm::Barrier{}, op).wait();
}

Status Trainer::open_stream() {
  MUSTER_ASSIGN(stream_, parts_.training_data(progress_.cursor, slices_here(), 0));
  epoch_size_ = stream_->plan().options().epoch_size;
  return ok();
}

Status Trainer::share_out() {
  finishing_ = false;
  return take_up(share(parts_.generations.current().workers));
}

Status Trainer::recover(const Error& why) {
  if (!parts_.generations.outlives(why)) return why;
  parts_.now_doing(progress_.committed, kWaitingForGeneration);
  return follow(why);
}

// Nobody may leave before all have the step. Some may not have heard of the plan yet: whoever set
// the flag has, so they wait for it.
Status Trainer::regroup() {
  // A first rank that goes leaves no save under way: the next one's and its own would take each
  // other for torn.
  MUSTER_TRY(wait_for_disk(Standstill::kLeave));
  MUSTER_TRY(meet(op_for("end of the generation")));
  return follow(std::nullopt);
}

// Where nobody can be done without, whoever is late is waited for as long as for anything; so are
// steps that are not like others.
Duration Trainer::step_limit() const {
  static const Error stuck = fail(ErrorCode::kTimeout, "somebody is stuck");
  const bool usual = !transfer_ && !finishing_ && parts_.generations.outlives(stuck);
  return usual ? step_patience_.limit(options_.op.timeout) : options_.op.timeout;
}

Status Trainer::follow(std::optional<Error> why) {
  const TimePoint began = parts_.clock.now();
  for (;;) {
    const Assignment before = assignment_;
    MUSTER_ASSIGN(const std::optional<Entry> entry,
                  parts_.generations.next(why, std::exchange(waits_, options_.op.timeout)));
    if (!entry) {
      position_.next = Next::kLeave;
      return ok();
    }
    idle_since_ = began;
    if (options_.keeps_ranks) saved_.reset();  // a save that has begun may have broken off
    Status entered = enter(*entry);
    if (entered) {
      if (!options_.keeps_ranks && !back_) tell_recovery(before, parts_.clock.now() - began);
      return ok();
    }
    if (!parts_.generations.outlives(entered.error())) return entered;
    why = entered.error();
  }
}

// Whoever comes anew may take as long to get ready, and whoever goes back to read a checkpoint.
Duration Trainer::entry_patience() const {
  const bool reads = options_.returned && options_.returned->generation == group().generation;
  return options_.keeps_ranks || reads ? options_.join_timeout : Duration{};
}

Status Trainer::enter(const Entry& entry) {
  comm::Communicator& communicator = *entry.communicator;
  const comm::OpOptions op = patient_op("entering a generation", entry_patience());
  transfer_.reset();
  step_patience_.begin_generation();
  if (neighbours_) neighbours_->wait();
  const Standing mine{.committed = progress_.committed,
                      .settled = position_.settled,
                      .whole = whole_ && !parts_.strategy.behind(),
                      .kept = parts_.strategy.kept(),
                      .assignment = assignment_.fingerprint(),
                      .paces = fingerprint(position_.paces),
                      .rollbacks = position_.rollbacks,
                      .idle = idle_since_ ? parts_.clock.now() - *idle_since_ : Duration{},
                      .keeps = neighbours_ && neighbours_->kept() == progress_.committed,
                      .evaluated = position_.evaluated == progress_.committed,
                      .data = options_.data};
  MUSTER_ASSIGN(const auto standings, exchange_standings(communicator, mine, op));
  MUSTER_TRY(check_data(standings, mine));
  if (options_.keeps_ranks) return reunite(entry, standings);
  const Course course = decide_course(standings);
  // Who comes new, or was not told how replicas compared, knows of no dispute, and could not take
  // part in its end.
  if (course.copies || !std::ranges::all_of(standings, &Standing::whole)) guard_.drop_dispute();
  if (course.goes_back) return plan_return(entry, decide_reunion(standings, all_alike(standings)));
  const Rank rank = communicator.group().rank;
  if (course.copies) {
    parts_.checkpoints.wait_until_copied();
    whole_ = rank == course.leader && whole_;
    MUSTER_TRY(copy_state(communicator, course.leader, parts_.strategy, position_, op));
    whole_ = true;
    take_over();
    if (parts_.strategy.behind()) {
      parts_.strategy.fall_behind();  // what it missed is in the copy
      MUSTER_TRY(parts_.strategy.catch_up());
    }
    if (rank != course.leader) guard_.forget_update();
  }
  if (course.newcomers > 0) MUSTER_TRY(begin_transfer(course, op));
  if (course.forgets) position_.paces.clear();
  begin_generation();
  finishing_ = course.finishes;
  take_roles(course.copies && rank != course.leader);
  if (!finishing_) {
    MUSTER_TRY(take_up(share(entry.workers)));
    return transfer_ ? ok() : verify_entry(course);
  }
  const Assignment before = std::exchange(assignment_, assignment_.inherited(entry.workers));
  MUSTER_TRY(parts_.strategy.enter(entry.communicator, assignment_.owners));
  MUSTER_ASSIGN(stream_,
                parts_.training_data(progress_.cursor, assignment_.added(before, rank), 1));
  return ok();
}

void Trainer::begin_generation() {
  finishing_ = false;
  position_.flags.clear(parallel::Flag::kRegroup);
  position_.flags.clear(parallel::Flag::kCaughtUp);
  compares_at_ = to_int(progress_.committed) + kStepsBeforeComparing;
  changes_in_a_row_ = 0;
  meter_ = {};
}

// What is made of the position, which may be another rank's now.
void Trainer::take_over() { divergence_ = DivergenceGuard(progress_.first_loss, position_.losses); }

Status Trainer::begin_transfer(const Course& course, const comm::OpOptions& op) {
  const auto& communicator = parts_.generations.current().communicator;
  const std::int32_t givers = group().size - course.newcomers;
  const bool newcomer = to_int(group().rank) >= givers;
  Position known;
  Position& position = newcomer || group().rank == course.leader ? position_ : known;
  MUSTER_TRY(copy_position(*communicator, course.leader, parts_.strategy, position, op));
  take_over();
  if (newcomer) {
    guard_.forget_update();
    parts_.strategy.fall_behind();
    whole_ = true;  // once it has caught up
  }
  joining_ = course;
  joined_at_ = progress_.committed;
  transfer_.emplace(communicator, givers, parts_.strategy, op_for("state for newcomers"),
                    parts_.clock);
  return ok();
}

// Before each step. A newcomer that has got the state does what it missed while the others compute.
Status Trainer::take_part_in_transfer() {
  if (!transfer_) return ok();
  MUSTER_ASSIGN(const bool done, transfer_->done());
  return parts_.strategy.behind() && done ? catch_up() : ok();
}

bool Trainer::has_missed_enough() const noexcept {
  return to_int(progress_.committed) - to_int(joined_at_) >= kMostMissed;
}

Status Trainer::catch_up() {
  parts_.now_doing(progress_.committed, "catching up");
  MUSTER_TRY(transfer_->wait(options_.op.timeout));
  MUSTER_TRY(parts_.strategy.catch_up());
  return transfer_->tell_caught_up();
}

// After the same step on all ranks: newcomers have the state, and from here on compute as well.
Status Trainer::complete_transfer() {
  const TimePoint began = parts_.clock.now();
  if (parts_.strategy.behind()) MUSTER_TRY(catch_up());
  parts_.now_doing(progress_.committed, "waiting for newcomers");
  MUSTER_TRY(transfer_->wait(options_.op.timeout));
  between_.comparing += parts_.clock.now() - began;
  if (is_first()) tell_transfer();
  transfer_.reset();
  step_patience_.disturb();  // newcomers' first slices take longer
  MUSTER_TRY(take_up(share(parts_.generations.current().workers)));
  return verify_entry(joining_);
}

void Trainer::tell_transfer() {
  const auto& workers = parts_.generations.current().workers;
  const std::span newcomers(workers.begin() + transfer_->givers(), workers.end());
  const std::int64_t meanwhile = to_int(progress_.committed) - to_int(joined_at_);
  const bool one = newcomers.size() == 1;
  const bool compute = computing(static_cast<std::int32_t>(workers.size())) > transfer_->givers();
  const std::string_view from_now_on =
      compute ? (one ? "computes" : "compute") : (one ? "stands by" : "stand by");
  parts_.hub.publish(observe::Notice{
      .text =
          fmt::format("worker{} {} got the state ({}) from {} worker{} while {} step{} passed, and "
                      "{} from step "
                      "{} on",
                      one ? "" : "s", fmt::join(newcomers, ", "), format_bytes(transfer_->bytes()),
                      transfer_->givers(), transfer_->givers() == 1 ? "" : "s", meanwhile,
                      meanwhile == 1 ? "" : "s", from_now_on, to_int(next(progress_.committed))),
      .recovery = observe::RecoveryPart{.turn = observe::RecoveryPart::Turn::kEntered,
                                        .workers = {newcomers.begin(), newcomers.end()}}});
}

// A new first rank does not know which saves of the one before it came to their end, nor which rows
// it told; and one that has copied the state was never there when its last step was told. Who
// listens drops what it knows.
void Trainer::take_roles(bool copied) {
  parts_.checkpoints.enter(group().generation, is_first());
  const bool took_over = is_first() && !was_first_ && !position_.rows.empty();
  if (took_over) saved_.reset();
  if (took_over || (is_first() && copied))
    for (const observe::Record& row : position_.rows) parts_.hub.publish(row);
  if (owed_ && is_first()) parts_.hub.publish(*owed_);
  owed_.reset();
  was_first_ = is_first();
}

void Trainer::tell_recovery(const Assignment& before, Duration took) {
  const Entry& entry = parts_.generations.current();
  const auto again = std::count_if(before.owners.begin(), before.owners.end(), [&](Rank owner) {
    const std::int32_t worker = before.workers[static_cast<std::size_t>(to_int(owner))];
    return std::find(entry.workers.begin(), entry.workers.end(), worker) == entry.workers.end();
  });
  const std::string what =
      finishing_ ? fmt::format("step {} goes on, {} of {} slices are computed again",
                               to_int(next(progress_.committed)), again, options_.slices)
                 : fmt::format("it goes on after step {}", to_int(progress_.committed));
  std::vector<std::int32_t> newcomers;
  std::ranges::copy_if(entry.workers, std::back_inserter(newcomers), [&](std::int32_t worker) {
    return std::ranges::find(before.workers, worker) == before.workers.end();
  });
  tell_generation(fmt::format("{}: {}", describe_generation(took), what), std::move(newcomers));
}

void Trainer::tell_generation(std::string text, std::vector<std::int32_t> newcomers) {
  parts_.hub.publish(observe::Notice{
      .text = std::move(text),
      .recovery = observe::RecoveryPart{.turn = observe::RecoveryPart::Turn::kStands,
                                        .workers = std::move(newcomers)}});
}

std::string Trainer::describe_generation(std::optional<Duration> took) const {
  return fmt::format("generation {} of {} worker{} stands{}", to_int(group().generation),
                     group().size, group().size == 1 ? "" : "s",
                     took ? " after " + format_duration(*took) : "");
}

}  // namespace muster::train
