#include <atomic>

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

bool is_collective(const Op& op) noexcept {
  return !std::holds_alternative<Send>(op) && !std::holds_alternative<Recv>(op);
}

class TracingCommunicator final : public Forward {
 public:
  TracingCommunicator(CommunicatorPtr inner, std::shared_ptr<FlightRecorder> recorder, Clock& clock,
                      bool whole)
      : Forward(std::move(inner)), recorder_(std::move(recorder)), clock_(clock), whole_(whole) {}

  Work submit(Op op, const OpOptions& options) override {
    FlightEntry entry;
    entry.generation = group().generation;
    if (whole_ && is_collective(op)) entry.number = ++calls_;
    entry.op = describe_for_all(op);
    entry.label = options.label;
    entry.bytes = bytes_of(op);
    entry.submitted = clock_.now();
    const std::uint64_t sequence = recorder_->begin(std::move(entry));
    Work work = inner().submit(std::move(op), options);
    work.note_done([recorder = recorder_, sequence, &clock = clock_](const Status& outcome) {
      recorder->end(sequence, clock.now(), outcome);
    });
    return work;
  }

 protected:
  Result<CommunicatorPtr> wrap(CommunicatorPtr part) override {
    return std::make_shared<TracingCommunicator>(std::move(part), recorder_, clock_, false);
  }

 private:
  const std::shared_ptr<FlightRecorder> recorder_;
  Clock& clock_;
  const bool whole_;  // not a part that has split off
  std::atomic<std::uint64_t> calls_{0};
};

}  // namespace

CommunicatorPtr with_trace(CommunicatorPtr inner, std::shared_ptr<FlightRecorder> recorder,
                           Clock& clock) {
  return std::make_shared<TracingCommunicator>(std::move(inner), std::move(recorder), clock, true);
}

}  // namespace muster::comm
