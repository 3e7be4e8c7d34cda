#pragma once
// The flight recorder, always on: the last operations of one rank, how far each got, and what it
// computes beside them. Several of them together tell who missed what (flight_analysis.h) and who
// waits for whom (wait_graph.h).

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/ids.h"
#include "muster/base/result.h"
#include "muster/comm/work.h"

namespace muster::comm {

// A part of the generation's whole group.
struct FlightGroup {
  std::string id;  // the split that made it, alike on all ranks: "/2"; in the second of its: "/2/2"
  std::vector<Rank> members;  // ranks of the whole group
};

struct FlightPeer {    // of a message between two ranks
  Rank rank{0};        // of the whole group
  bool sends = false;  // this rank does
  std::uint32_t tag = 0;
  friend auto operator<=>(const FlightPeer&, const FlightPeer&) = default;
};

struct FlightEntry {
  std::uint64_t sequence = 0;  // counts this rank's operations from 0
  Generation generation{0};
  std::shared_ptr<const FlightGroup> part = {};  // none: the whole group
  std::optional<FlightPeer> peer = {};           // none: a collective
  // Counted from 1 among the collectives of its group, or the messages to or from its peer with its
  // tag there: the same on all that have a part in the operation.
  std::uint64_t turn = 0;
  // Of the generation's whole group, counted from 1: the same number on every rank is the same
  // collective. None: a message between two ranks, or an operation of a part of the group.
  std::optional<std::uint64_t> number = {};
  std::string op = {};  // describe_for_all(op)
  std::string label = {};
  std::size_t bytes = 0;
  TimePoint submitted{};
  std::optional<TimePoint> awaited = {};  // since then a thread has blocked for it
  std::thread::id awaited_by = {};        // the first one that did
  std::optional<TimePoint> ended = {};
  std::optional<Error> error = {};
  // Of a collective under way, when the entry was asked for; of one that failed, then.
  std::optional<Awaited> waits_for = {};
};

// What a lane computes, "forward of slice 3".
struct RunningPass {
  std::string what;
  TimePoint since{};
  std::thread::id thread = {};
};

// Thread-safe.
class FlightRecorder {
 public:
  explicit FlightRecorder(std::size_t capacity = 256) : capacity_(capacity) {}

  std::vector<FlightEntry> entries() const;  // oldest first
  std::string report(Clock& clock) const;    // one line an operation, those in flight marked

  std::uint64_t begin(FlightEntry entry);         // gives it its sequence number
  void holds(std::uint64_t sequence, Work work);  // before it ends: its handle
  // The calling thread blocks until it has ended.
  void awaits(std::uint64_t sequence, TimePoint at);
  void end(std::uint64_t sequence, TimePoint at, const Status& outcome);

  // From here on the lane computes that, in the calling thread; empty: nothing.
  void computing(std::int32_t lane, std::string_view what, TimePoint at);
  std::vector<RunningPass> passes() const;  // in the order of lanes

  // Called with the oldest operation in flight, "all_reduce sum F32 [8] (gradients/0)", whenever it
  // is another one; empty: none is. One call at a time; it must not block or call back.
  void on_change(std::function<void(std::string_view)> tell);
  // Called with every operation once it has ended. Likewise.
  void on_end(std::function<void(const FlightEntry&)> tell);

 private:
  void tell_oldest();
  std::optional<Awaited> waits_for(std::uint64_t sequence) const;
  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::vector<FlightEntry> ring_;  // entry s at s % capacity_; guarded by mutex_
  std::uint64_t next_ = 0;         // guarded by mutex_
  std::map<std::uint64_t, std::optional<Work>> in_flight_;  // guarded by mutex_
  std::map<std::int32_t, RunningPass> passes_;              // by lane; guarded by mutex_
  std::optional<std::uint64_t> told_;                       // the oldest of them; guarded by mutex_
  std::function<void(std::string_view)> on_change_;         // guarded by mutex_
  std::function<void(const FlightEntry&)> on_end_;          // guarded by mutex_
};

}  // namespace muster::comm
