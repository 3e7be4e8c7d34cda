// Of a local job: where every worker is, when somebody asks or the job has failed.
#include <algorithm>
#include <utility>

#include "muster/cluster/local_job.h"

namespace muster::cluster {
namespace {

// How long an answer to "where are you" may take; the stacks of many threads need a while.
constexpr Duration kDumps = std::chrono::seconds(3);

}  // namespace

// With a failure there is no time for stacks, and who failed has told already: what is told is what
// has come until the end.
void LocalJob::ask_for_dumps(bool failure) {
  if (!failure) dumps_.clear();
  for (const auto& [number, worker] : workers_)
    processes_[number] = worker->is_elsewhere() ? "" : describe_process(worker->pid());
  asked_ = failure ? Asked::kByFailure : Asked::kByUser;
  coordinator_->broadcast(Dump{.stacks = !failure});
  if (!failure) dump_timer_ = loop_.call_at(loop_.clock().now() + kDumps, [this] { tell_dumps(); });
}

void LocalJob::take_dump(std::int32_t worker, const Bytes& content) {
  dumps_[worker] = content;
  if (asked_ != Asked::kByUser) return;
  const bool complete = std::ranges::all_of(workers_, [&](const auto& entry) {
    const auto& [number, each] = entry;
    return each->ended() || each->written_off || dumps_.contains(number);
  });
  if (complete) tell_dumps();
}

void LocalJob::tell_dumps() {
  const Asked asked = std::exchange(asked_, Asked::kNo);
  dump_timer_ = nullptr;
  if (asked == Asked::kNo) return;
  std::vector<WorkerState> states;
  for (const auto& [number, worker] : workers_) {
    if (asked == Asked::kByUser && (worker->ended() || worker->written_off)) continue;
    const auto dump = dumps_.find(number);
    states.push_back({.worker = worker->evidence.rank,
                      .host = worker->host,
                      .pid = worker->pid(),
                      .progress = worker->where(),
                      .process = processes_[number],
                      .dump = dump == dumps_.end() ? std::nullopt : std::optional(dump->second)});
  }
  observer_.on_dumps(states, asked == Asked::kByFailure);
}

}  // namespace muster::cluster
