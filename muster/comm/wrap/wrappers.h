#pragma once
// Wrappers: communicators around a communicator. Each overrides submit() once, so it applies to all
// operations of every engine; they compose in any order. Thread-safe like what they wrap.

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/comm/communicator.h"

namespace muster::comm {

using CommunicatorPtr = std::shared_ptr<Communicator>;

// No operation waits longer than `limit`, whatever its own options say.
CommunicatorPtr with_deadline(CommunicatorPtr inner, Duration limit);

// Compares every collective with the other ranks' before it starts. Where operation, dtype, shape
// or reduction differ, all ranks get kInvalid at once, naming two of them and what each called.
// Collective to create. Costs one small all-gather an operation.
Result<CommunicatorPtr> with_order_check(const CommunicatorPtr& inner);

// Called before each submission; an Error fails the operation instead of running it. For tests.
using Fault = std::function<std::optional<Error>(const Op& op, const OpOptions& options)>;
CommunicatorPtr with_faults(CommunicatorPtr inner, Fault fault);

// The flight recorder: the last operations of one rank and how far each got. Thread-safe.
class FlightRecorder {
 public:
  struct Entry {
    std::uint64_t sequence = 0;  // counts this rank's operations from 0
    std::string op;              // describe(op)
    std::string label;
    std::size_t bytes = 0;
    TimePoint submitted{};
    std::optional<TimePoint> ended;
    std::optional<Error> error;
  };
  explicit FlightRecorder(std::size_t capacity = 256) : capacity_(capacity) {}

  std::vector<Entry> entries() const;       // oldest first
  std::string report(TimePoint now) const;  // one line an operation, those in flight marked

  std::uint64_t begin(Entry entry);  // gives it its sequence number
  void end(std::uint64_t sequence, TimePoint at, const Status& outcome);

 private:
  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::vector<Entry> ring_;  // entry s at s % capacity_; guarded by mutex_
  std::uint64_t next_ = 0;   // guarded by mutex_
};

CommunicatorPtr with_trace(CommunicatorPtr inner, std::shared_ptr<FlightRecorder> recorder,
                           Clock& clock = system_clock());

}  // namespace muster::comm
