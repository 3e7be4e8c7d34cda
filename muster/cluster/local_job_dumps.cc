// Of a local job: where every worker is, when somebody asks, one of them does not answer the
// others, or the job has failed.
#include <algorithm>
#include <utility>

#include "muster/cluster/local_job.h"

namespace muster::cluster {
namespace {

// For the answer of who has joined and not begun to train: it may be busy, and holds nobody up.
// Whoever asks is told so, and not kept waiting.
constexpr Duration kDumpsAtTheStart = std::chrono::milliseconds(500);

}  // namespace

// With a failure there is no time for stacks, and who failed has told already: what is told is what
// has come until the end.
void LocalJob::ask_for_dumps(DumpOccasion occasion) {
  const bool failure = occasion == DumpOccasion::kFailure;
  asked_ = occasion;
  if (failure && has_looked_into()) return;  // what came then says more, by its stacks
  if (occasion == DumpOccasion::kAsked) dumps_.clear();
  for (const auto& [number, worker] : workers_)
    processes_[number] = worker->is_elsewhere() || !worker->remote_host().empty()
                             ? ""
                             : describe_process(worker->pid());
  coordinator_->broadcast(Dump{.stacks = !failure});
  asked_at_ = loop_.clock().now();
  if (!failure)
    dump_timer_ = loop_.call_at(asked_at_ + spec_.dump_patience, [this] { tell_dumps(); });
  if (occasion != DumpOccasion::kAsked) return;
  start_dump_timer_ =
      loop_.call_at(asked_at_ + kDumpsAtTheStart, [this] { tell_dumps_if_complete(); });
  tell_dumps_if_complete();  // nobody may have joined yet
}

// In this generation, or in the one before it, of which this is a second try by the same workers.
bool LocalJob::has_looked_into() const {
  return looked_into_ && to_int(generation_) <= to_int(*looked_into_) + 1;
}

// Somebody is waited for in vain: what all do is asked while that lasts. Who gave up for it has
// told already.
void LocalJob::look_into_no_answer() {
  if (asked_ || has_looked_into()) return;
  looked_into_ = generation_;
  ask_for_dumps(DumpOccasion::kNoAnswer);
}

bool LocalJob::awaits_stacks() const { return asked_ == DumpOccasion::kNoAnswer && dump_timer_; }

Rank LocalJob::rank_of(std::int32_t worker) const {
  const auto found = std::ranges::find(members_, worker);
  return found == members_.end() ? kNoRank
                                 : Rank{static_cast<std::int32_t>(found - members_.begin())};
}

void LocalJob::take_dump(std::int32_t worker, const Bytes& content) {
  dumps_[worker] = content;
  tell_dumps_if_complete();
}

// It looks for questions once it has a rank.
bool LocalJob::cannot_answer(const WorkerProcess& worker) { return !worker.evidence.joined; }

// Who is lost is not heard any more.
void LocalJob::tell_dumps_if_complete() {
  if (!asked_ || asked_ == DumpOccasion::kFailure) return;
  const bool waits_for_all =
      asked_ != DumpOccasion::kAsked || loop_.clock().now() < asked_at_ + kDumpsAtTheStart;
  const bool complete = std::ranges::all_of(workers_, [&](const auto& entry) {
    const auto& [number, each] = entry;
    return each->ended() || each->evidence.lost || each->written_off || cannot_answer(*each) ||
           dumps_.contains(number) || (!waits_for_all && each->where().phase.empty());
  });
  if (complete) tell_dumps();
}

// While it is considered who is to blame, they wait for that; those of a failure for the end.
void LocalJob::tell_dumps() {
  dump_timer_ = nullptr;
  if (state_ == State::kSettling) {
    if (!settle_timer_) conclude();
    return;
  }
  if (!asked_ || (asked_ == DumpOccasion::kFailure && state_ != State::kOver)) return;
  const DumpOccasion asked = *std::exchange(asked_, std::nullopt);
  std::vector<WorkerState> states;
  for (const auto& [number, worker] : workers_) {
    if (asked == DumpOccasion::kAsked && (worker->ended() || worker->written_off)) continue;
    if (stands_by(*worker)) continue;  // nobody waits for it
    const auto dump = dumps_.find(number);
    const bool has_begun = !cannot_answer(*worker) && !worker->where().phase.empty();
    states.push_back({.worker = worker->evidence.rank,
                      .host = worker->host,
                      .pid = worker->pid(),
                      .progress = worker->where(),
                      .process = processes_[number],
                      .dump = dump == dumps_.end() ? std::nullopt : std::optional(dump->second),
                      .waits_to_begin = !published_ && worker->here,
                      .rank = rank_of(number),
                      .starting = asked != DumpOccasion::kFailure && !has_begun});
  }
  observer_.on_dumps(states, asked);
}

}  // namespace muster::cluster
