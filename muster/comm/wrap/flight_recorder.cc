#include "muster/comm/wrap/flight_recorder.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/units.h"

namespace muster::comm {
namespace {

std::string name_of(const FlightEntry& entry) {
  return entry.label.empty() ? entry.op : fmt::format("{} ({})", entry.op, entry.label);
}

std::string line_of(const FlightEntry& entry, TimePoint now) {
  const Duration time = entry.ended.value_or(now) - entry.submitted;
  const std::string_view state = !entry.ended ? "in flight" : entry.error ? "failed" : "done";
  const std::string error = entry.error ? ": " + entry.error->message : "";
  return fmt::format("#{} {} {} {} after {}{}\n", entry.sequence, name_of(entry),
                     format_bytes(entry.bytes), state, format_duration(time), error);
}

}  // namespace

std::uint64_t FlightRecorder::begin(FlightEntry entry) {
  const std::lock_guard lock(mutex_);
  entry.sequence = next_++;
  const std::uint64_t sequence = entry.sequence;
  if (ring_.size() < capacity_)
    ring_.push_back(std::move(entry));
  else
    ring_[sequence % capacity_] = std::move(entry);
  in_flight_.emplace(sequence, std::nullopt);
  tell_oldest();
  return sequence;
}

void FlightRecorder::holds(std::uint64_t sequence, Work work) {
  const std::lock_guard lock(mutex_);
  in_flight_[sequence] = std::move(work);
}

void FlightRecorder::awaits(std::uint64_t sequence, TimePoint at) {
  const std::lock_guard lock(mutex_);
  FlightEntry& entry = ring_[sequence % capacity_];
  if (entry.sequence != sequence) return;
  entry.awaited = at;
  entry.awaited_by = std::this_thread::get_id();
}

void FlightRecorder::computing(std::int32_t lane, std::string_view what, TimePoint at) {
  const std::lock_guard lock(mutex_);
  if (what.empty())
    passes_.erase(lane);
  else
    passes_.insert_or_assign(lane, RunningPass{std::string(what), at, std::this_thread::get_id()});
}

std::vector<RunningPass> FlightRecorder::passes() const {
  const std::lock_guard lock(mutex_);
  std::vector<RunningPass> passes;
  passes.reserve(passes_.size());
  for (const auto& [lane, pass] : passes_) passes.push_back(pass);
  return passes;
}

// Without the mutex: an operation has locks of its own.
std::optional<Awaited> FlightRecorder::waits_for(std::uint64_t sequence) const {
  std::unique_lock lock(mutex_);
  const auto found = in_flight_.find(sequence);
  const auto work = found == in_flight_.end() ? std::nullopt : found->second;
  lock.unlock();
  return work ? work->awaited() : std::nullopt;
}

void FlightRecorder::end(std::uint64_t sequence, TimePoint at, const Status& outcome) {
  auto waited_for = outcome ? std::nullopt : waits_for(sequence);
  const std::lock_guard lock(mutex_);
  in_flight_.erase(sequence);
  tell_oldest();
  FlightEntry& entry = ring_[sequence % capacity_];
  if (entry.sequence != sequence) return;  // overwritten by newer operations
  entry.ended = at;
  if (!outcome) entry.error = outcome.error();
  entry.waits_for = std::move(waited_for);
  if (on_end_) on_end_(entry);
}

void FlightRecorder::on_change(std::function<void(std::string_view)> tell) {
  const std::lock_guard lock(mutex_);
  on_change_ = std::move(tell);
}

void FlightRecorder::on_end(std::function<void(const FlightEntry&)> tell) {
  const std::lock_guard lock(mutex_);
  on_end_ = std::move(tell);
}

// Under mutex_.
void FlightRecorder::tell_oldest() {
  const auto oldest = in_flight_.empty() ? std::nullopt : std::optional(in_flight_.begin()->first);
  if (oldest == std::exchange(told_, oldest) || !on_change_) return;
  if (!oldest) return on_change_("");
  const FlightEntry& entry = ring_[*oldest % capacity_];
  on_change_(entry.sequence == *oldest ? name_of(entry) : "an operation of long ago");
}

std::vector<FlightEntry> FlightRecorder::entries() const {
  std::unique_lock lock(mutex_);
  std::vector<FlightEntry> all;
  for (std::uint64_t s = next_ - ring_.size(); s < next_; ++s) all.push_back(ring_[s % capacity_]);
  lock.unlock();
  for (FlightEntry& entry : all)
    if (!entry.ended) entry.waits_for = waits_for(entry.sequence);
  return all;
}

std::string FlightRecorder::report(Clock& clock) const {
  const std::vector<FlightEntry> all = entries();
  const TimePoint now = clock.now();  // none of them has begun later
  std::string text;
  for (const FlightEntry& entry : all) text += line_of(entry, now);
  return text;
}

}  // namespace muster::comm
