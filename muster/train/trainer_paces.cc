// The trainer's eye on the pace of its workers.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "muster/base/check.h"
#include "muster/train/trainer.h"

namespace muster::train {
namespace {

// A window is long enough for a median; the first one after a change is short, since the change may
// have been a bad one. Change upon change is noise, which longer and longer windows even out.
constexpr std::int64_t kFewestSteps = 5;
constexpr std::int64_t kStepsAfterChange = 3;
constexpr std::int32_t kMostDoublings = 4;
// What a step has to gain by it before slices change hands: more than that costs, and than noise.
constexpr double kWorthwhile = 0.9;
constexpr double kWorthwhileSeconds = 300e-6;
// Asking around and loading a slice's samples takes milliseconds.
constexpr Duration kLeastPatience = std::chrono::milliseconds(10);

}  // namespace

void Trainer::measure_pace(const data::StepBatch& batch, const parallel::StepReport& report,
                           Duration whole) {
  if (finishing_) return;  // a part of a step only
  meter_.add({.slices = static_cast<std::int32_t>(batch.slices.size()),
              .backups = report.backups,
              .computing = report.times.computing,
              .input = batch.waited,
              .waiting = report.times.exposed_communication,
              .whole = whole});
}

// Whenever they have doubled: seldom, if they are many.
void Trainer::tell_backups() {
  for (const Pace& pace : position_.paces) {
    std::uint32_t& sum = backups_[pace.worker];
    const std::uint32_t before = std::exchange(sum, sum + static_cast<std::uint32_t>(pace.backups));
    if (std::bit_width(sum) > std::bit_width(before))
      tell_of_worker(pace.worker, observe::Severity::kNote,
                     fmt::format("was late: others computed {} of its slices so far", sum));
  }
}

// Once: the job file says how many there are. Ranks that compute a slice together share out none.
void Trainer::tell_few_slices() {
  const bool shares = options_.stragglers.rebalance && parts_.strategy.ranks_per_replica() == 1;
  if (!is_first() || !shares || told_of_slices_) return;
  const auto active = std::min(computing(group().size), holders());
  std::string text =
      describe_few_slices(options_.slices, position_.paces, active, options_.most_slices);
  if (text.empty()) return;
  told_of_slices_ = true;
  parts_.hub.publish(observe::Notice{.text = std::move(text)});
}

// How long to wait for others before computing slices for them: as usual, and one slice more.
Duration Trainer::patience() const {
  const auto mine = std::ranges::find(position_.paces, worker_at(group().rank), &Pace::worker);
  if (mine == position_.paces.end() || mine->slice <= 0) return Duration::max() / 2;
  return std::max(kLeastPatience, std::chrono::duration_cast<Duration>(
                                      std::chrono::duration<double>(mine->waiting + mine->slice)));
}

Result<data::StepBatch> Trainer::load_slice(SliceIndex slice) const {
  MUSTER_ASSIGN(const auto stream, parts_.training_data(progress_.cursor, {slice}, 1));
  MUSTER_ASSIGN(auto batch, stream->next());
  MUSTER_CHECK(batch, "another rank has this step's slice");
  return std::move(*batch);
}

// A word about `worker`, which is there, from the first rank.
void Trainer::tell_of_worker(std::int32_t worker, observe::Severity severity,
                             std::string_view what) {
  if (is_first())
    parts_.hub.publish(observe::Notice{.severity = severity,
                                       .text = fmt::format("{} {}", name_of_worker(worker), what)});
}

// "worker 2 (pid 4711 on node7)"
std::string Trainer::name_of_worker(std::int32_t worker) const {
  const Entry& entry = parts_.generations.current();
  const auto rank = std::ranges::find(entry.workers, worker) - entry.workers.begin();
  return fmt::format("worker {} ({})", worker, entry.places[static_cast<std::size_t>(rank)]);
}

Status Trainer::compare_paces() {
  const bool ready = group().size > 1 && to_int(progress_.committed) >= compares_at_;
  if (!ready || !due_by_flag(parallel::Flag::kCompare)) return ok();
  const std::int32_t me = worker_at(group().rank);
  Pace mine = meter_.take(me, options_.lanes);
  mine.stop = parts_.stop_requested();
  comm::Communicator& communicator = *parts_.generations.current().communicator;
  const TimePoint began = parts_.clock.now();
  if (links_matter(position_.paces)) {
    MUSTER_ASSIGN(mine.link, measure_link(communicator, parts_.clock, op_for("measuring links")));
  }
  MUSTER_ASSIGN(auto paces, exchange_paces(communicator, mine, op_for("comparing paces")));
  between_.comparing += parts_.clock.now() - began;
  const std::vector<Pace> before = position_.paces;
  position_.paces = with_memory(std::move(paces), before);
  compares_at_ = to_int(progress_.committed) + kFewestSteps;
  paces_due_ = parts_.clock.now() + options_.stragglers.compare_every;
  if (std::ranges::any_of(position_.paces, &Pace::stop)) position_.flags.set(parallel::Flag::kStop);
  const StragglerWatch::News news = stragglers_.observe(position_.paces);
  for (const Straggler& straggler : news.slow)
    tell_of_worker(straggler.worker, observe::Severity::kWarning,
                   describe(straggler, straggler.from < 0 ? "" : name_of_worker(straggler.from)));
  if (std::ranges::find(news.slow, Straggler::Cause::kCompute, &Straggler::cause) !=
      news.slow.end())
    tell_few_slices();
  tell_backups();
  for (const std::int32_t worker : news.recovered)
    tell_of_worker(worker, observe::Severity::kNote, "keeps pace again");
  for (const std::int32_t worker : news.to_go) {
    tell_of_worker(worker, observe::Severity::kWarning,
                   "stays too slow (stragglers.evict_factor): it is told to go");
    if (worker == me) parts_.generations.resign();
  }
  return options_.stragglers.rebalance ? rebalance(before) : ok();
}

// The others stand by.
std::int32_t Trainer::computing(std::int32_t workers) const {
  return std::max(options_.active, workers - options_.standbys);
}

// As paces say; those not known, and all of them without rebalancing, count as equal. Where several
// ranks compute a slice together it is the first one's.
Assignment Trainer::share(const std::vector<std::int32_t>& workers) const {
  const auto size = static_cast<std::int32_t>(workers.size());
  if (parts_.strategy.ranks_per_replica() > 1) {
    std::vector<Rank> firsts;
    for (Rank rank{0}; to_int(rank) < size; rank = Rank{to_int(rank) + 1})
      if (parts_.strategy.first_of_replica(rank) == rank) firsts.push_back(rank);
    const auto replicas = static_cast<std::int32_t>(firsts.size());
    return Assignment::of_replicas(options_.slices, firsts,
                                   parts_.strategy.ranks_in_turns(replicas), workers);
  }
  std::vector<Pace> paces;
  for (const std::int32_t worker : workers) {
    const auto known = std::ranges::find(position_.paces, worker, &Pace::worker);
    const bool counts = options_.stragglers.rebalance && known != position_.paces.end();
    paces.push_back(counts ? *known : Pace{.worker = worker});
  }
  const auto counts = share_by_pace(options_.slices, paces, std::min(computing(size), holders()));
  return Assignment::in_turns(counts, parts_.strategy.ranks_in_turns(size), workers);
}

std::vector<SliceIndex> Trainer::slices_here() const {
  return assignment_.of(parts_.strategy.first_of_replica(group().rank));
}

// What the comparison before says as well: a disturbance seldom lasts for two of them.
Status Trainer::rebalance(const std::vector<Pace>& before) {
  Assignment better = share(assignment_.workers);
  const double now = computing_seconds(assignment_.counts(), position_.paces);
  const double then = computing_seconds(better.counts(), position_.paces);
  const bool lasts =
      std::ranges::equal(before, position_.paces, {}, &Pace::worker, &Pace::worker) &&
      computing_seconds(better.counts(), before) <=
          kWorthwhile * computing_seconds(assignment_.counts(), before);
  if (!lasts || then > kWorthwhile * now || now - then < kWorthwhileSeconds) {
    changes_in_a_row_ = 0;
    return ok();
  }
  if (is_first()) {
    parts_.hub.publish(observe::Notice{
        .text = fmt::format("slices are shared out {} by speed from step {} on: computing them "
                            "takes {:.0f} % less time",
                            fmt::join(better.counts(), "-"), to_int(next(progress_.committed)),
                            100 * (1 - then / now))});
  }
  compares_at_ = to_int(progress_.committed) +
                 (kStepsAfterChange << std::min(changes_in_a_row_++, kMostDoublings));
  paces_due_ = {};
  return take_up(std::move(better));
}

// Goes on with other slices in the same generation.
Status Trainer::take_up(Assignment assignment) {
  assignment_ = std::move(assignment);
  MUSTER_TRY(parts_.strategy.enter(parts_.generations.current().communicator, assignment_.owners));
  return open_stream();
}

}  // namespace muster::train
