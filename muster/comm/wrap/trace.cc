#include <fmt/format.h>

#include "muster/base/units.h"
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

class TracingCommunicator final : public Forward {
 public:
  TracingCommunicator(CommunicatorPtr inner, std::shared_ptr<FlightRecorder> recorder, Clock& clock)
      : Forward(std::move(inner)), recorder_(std::move(recorder)), clock_(clock) {}

  Work submit(Op op, const OpOptions& options) override {
    FlightRecorder::Entry entry;
    entry.op = describe(op);
    entry.label = options.label;
    entry.bytes = bytes_of(op);
    entry.submitted = clock_.now();
    const std::uint64_t sequence = recorder_->begin(std::move(entry));
    Work work = inner().submit(std::move(op), options);
    work.on_done([recorder = recorder_, sequence, &clock = clock_](const Status& outcome) {
      recorder->end(sequence, clock.now(), outcome);
    });
    return work;
  }

 protected:
  Result<CommunicatorPtr> wrap(CommunicatorPtr part) override {
    return with_trace(std::move(part), recorder_, clock_);
  }

 private:
  const std::shared_ptr<FlightRecorder> recorder_;
  Clock& clock_;
};

std::string line_of(const FlightRecorder::Entry& entry, TimePoint now) {
  const Duration time = entry.ended.value_or(now) - entry.submitted;
  const std::string_view state = !entry.ended ? "in flight" : entry.error ? "failed" : "done";
  const std::string label = entry.label.empty() ? "" : fmt::format(" ({})", entry.label);
  const std::string error = entry.error ? ": " + entry.error->message : "";
  return fmt::format("#{} {}{} {} {} after {}{}\n", entry.sequence, entry.op, label,
                     format_bytes(entry.bytes), state, format_duration(time), error);
}

}  // namespace

std::uint64_t FlightRecorder::begin(Entry entry) {
  const std::lock_guard lock(mutex_);
  entry.sequence = next_++;
  const std::uint64_t sequence = entry.sequence;
  if (ring_.size() < capacity_)
    ring_.push_back(std::move(entry));
  else
    ring_[sequence % capacity_] = std::move(entry);
  return sequence;
}

void FlightRecorder::end(std::uint64_t sequence, TimePoint at, const Status& outcome) {
  const std::lock_guard lock(mutex_);
  Entry& entry = ring_[sequence % capacity_];
  if (entry.sequence != sequence) return;  // overwritten by newer operations
  entry.ended = at;
  if (!outcome) entry.error = outcome.error();
}

std::vector<FlightRecorder::Entry> FlightRecorder::entries() const {
  const std::lock_guard lock(mutex_);
  std::vector<Entry> all;
  for (std::uint64_t s = next_ - ring_.size(); s < next_; ++s) all.push_back(ring_[s % capacity_]);
  return all;
}

std::string FlightRecorder::report(TimePoint now) const {
  std::string text;
  for (const Entry& entry : entries()) text += line_of(entry, now);
  return text;
}

CommunicatorPtr with_trace(CommunicatorPtr inner, std::shared_ptr<FlightRecorder> recorder,
                           Clock& clock) {
  return std::make_shared<TracingCommunicator>(std::move(inner), std::move(recorder), clock);
}

}  // namespace muster::comm
