#pragma once
// The flight recorder, always on: the last operations of one rank and how far each got. Several of
// them together tell who missed what (flight_analysis.h).

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/ids.h"
#include "muster/base/result.h"

namespace muster::comm {

struct FlightEntry {
  std::uint64_t sequence = 0;  // counts this rank's operations from 0
  Generation generation{0};
  // Of the generation's whole group, counted from 1: the same number on every rank is the same
  // collective. None: a message between two ranks, or an operation of a part of the group.
  std::optional<std::uint64_t> number = {};
  std::string op = {};  // describe_for_all(op)
  std::string label = {};
  std::size_t bytes = 0;
  TimePoint submitted{};
  std::optional<TimePoint> ended = {};
  std::optional<Error> error = {};
};

// Thread-safe.
class FlightRecorder {
 public:
  explicit FlightRecorder(std::size_t capacity = 256) : capacity_(capacity) {}

  std::vector<FlightEntry> entries() const;  // oldest first
  std::string report(Clock& clock) const;    // one line an operation, those in flight marked

  std::uint64_t begin(FlightEntry entry);  // gives it its sequence number
  void end(std::uint64_t sequence, TimePoint at, const Status& outcome);

  // Called with the oldest operation in flight, "all_reduce sum F32 [8] (gradients/0)", whenever it
  // is another one; empty: none is. One call at a time; it must not block or call back.
  void on_change(std::function<void(std::string_view)> tell);
  // Called with every operation once it has ended. Likewise.
  void on_end(std::function<void(const FlightEntry&)> tell);

 private:
  void tell_oldest();
  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::vector<FlightEntry> ring_;                    // entry s at s % capacity_; guarded by mutex_
  std::uint64_t next_ = 0;                           // guarded by mutex_
  std::set<std::uint64_t> in_flight_;                // guarded by mutex_
  std::optional<std::uint64_t> told_;                // the oldest of them; guarded by mutex_
  std::function<void(std::string_view)> on_change_;  // guarded by mutex_
  std::function<void(const FlightEntry&)> on_end_;   // guarded by mutex_
};

}  // namespace muster::comm
