#include <fmt/format.h>

#include <map>
#include <mutex>

#include "muster/comm/wrap/forward.h"
#include "muster/comm/wrap/wrappers.h"

namespace muster::comm {
namespace {

std::size_t bytes_of(const Op& op) noexcept {
  if (const auto* o = std::get_if<AllReduce>(&op)) return o->buffer.bytes.size();
  if (const auto* o = std::get_if<ReduceScatter>(&op)) return o->input.bytes.size();
  if (const auto* o = std::get_if<AllGather>(&op)) return o->output.bytes.size();
  if (const auto* o = std::get_if<Broadcast>(&op)) return o->buffer.bytes.size();
  if (const auto* o = std::get_if<AllToAll>(&op)) return o->input.bytes.size();
  if (const auto* o = std::get_if<Send>(&op)) return o->tensor.bytes.size();
  if (const auto* o = std::get_if<Recv>(&op)) return o->tensor.bytes.size();
  return 0;
}

// By the ranks of its own group.
std::optional<FlightPeer> peer_of(const Op& op) noexcept {
  if (const auto* send = std::get_if<Send>(&op)) return FlightPeer{send->to, true, send->tag};
  if (const auto* recv = std::get_if<Recv>(&op)) return FlightPeer{recv->from, false, recv->tag};
  return std::nullopt;
}

class TracingCommunicator final : public Forward {
 public:
  TracingCommunicator(CommunicatorPtr inner, std::shared_ptr<FlightRecorder> recorder, Clock& clock,
                      std::shared_ptr<const FlightGroup> part = nullptr)
      : Forward(std::move(inner)),
        recorder_(std::move(recorder)),
        clock_(clock),
        part_(std::move(part)) {}

  Work submit(Op op, const OpOptions& options) override {
    FlightEntry entry;
    entry.generation = group().generation;
    entry.part = part_;
    entry.peer = peer_of(op);
    entry.turn = next_turn(entry.peer);
    if (entry.peer) entry.peer->rank = in_whole(entry.peer->rank);
    if (!entry.peer && !part_) entry.number = entry.turn;
    entry.op = describe_for_all(op);
    entry.label = options.label;
    entry.bytes = bytes_of(op);
    entry.submitted = clock_.now();
    const std::uint64_t sequence = recorder_->begin(std::move(entry));
    Work work = inner().submit(std::move(op), options);
    recorder_->holds(sequence, work);
    // Which holds them: an operation that never ends must not keep it alive.
    const std::weak_ptr<FlightRecorder> notes = recorder_;
    work.note_done([notes, sequence, &clock = clock_](const Status& outcome) {
      if (const auto recorder = notes.lock()) recorder->end(sequence, clock.now(), outcome);
    });
    work.note_wait([notes, sequence, &clock = clock_] {
      if (const auto recorder = notes.lock()) recorder->awaits(sequence, clock.now());
    });
    return work;
  }

 protected:
  Result<CommunicatorPtr> wrap(CommunicatorPtr part) override {
    std::unique_lock lock(mutex_);
    const std::uint64_t split = ++splits_;
    lock.unlock();
    auto group = std::make_shared<const FlightGroup>(
        FlightGroup{fmt::format("{}/{}", part_ ? part_->id : "", split), part->members()});
    return std::make_shared<TracingCommunicator>(std::move(part), recorder_, clock_,
                                                 std::move(group));
  }

 private:
  std::uint64_t next_turn(const std::optional<FlightPeer>& peer) {
    const std::lock_guard lock(mutex_);
    return ++turns_[peer];
  }

  // What the operation refuses is nobody's rank.
  Rank in_whole(Rank rank) const {
    const auto place = static_cast<std::size_t>(to_int(rank));
    return part_ && place < part_->members.size() ? part_->members[place] : rank;
  }

  const std::shared_ptr<FlightRecorder> recorder_;
  Clock& clock_;
  const std::shared_ptr<const FlightGroup> part_;  // none: the whole group
  std::mutex mutex_;
  std::map<std::optional<FlightPeer>, std::uint64_t> turns_;  // none: collectives; under mutex_
  std::uint64_t splits_ = 0;                                  // guarded by mutex_
};

}  // namespace

CommunicatorPtr with_trace(CommunicatorPtr inner, std::shared_ptr<FlightRecorder> recorder,
                           Clock& clock) {
  return std::make_shared<TracingCommunicator>(std::move(inner), std::move(recorder), clock);
}

}  // namespace muster::comm
