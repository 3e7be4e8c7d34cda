#pragma once
// Tracer: what one worker does and when, as spans. It is told in the words that tell where the
// worker is (cluster/whereabouts.h), and of operations once they have ended.

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/clock.h"
#include "muster/observe/span.h"

namespace muster::observe {

struct TracerOptions {
  std::int32_t worker = 0;
  std::int64_t steps = 0;  // how many, from the first that it takes; 0: all
  Duration deliver_every = std::chrono::milliseconds(250);
};

// Thread-safe. Once it has seen its steps it costs one load of an atomic.
class Tracer {
 public:
  using Deliver = std::function<void(std::vector<Span> spans)>;

  // `deliver` is called by whoever begins a phase or a pass, and by finish(); one at a time.
  Tracer(Clock& clock, TracerOptions options, Deliver deliver);

  // The rank and generation of what follows.
  void enter(Generation generation, Rank rank);
  // The phase that begins, and the one before ends. Back at an earlier step, the one under way has
  // broken off, and what lanes computed of it. A recovery is no part of a step.
  void doing(Step step, std::string_view phase);
  // What a lane computes, "backward of slice 3"; empty: nothing.
  void computing(std::int32_t lane, std::string_view pass);
  // Of an operation that has ended: its name, detail, number, bytes and times; the rest is known
  // here.
  void operated(Span operation);
  bool over() const noexcept { return over_; }  // nothing more is kept
  // What has begun ends, and all is delivered.
  void finish();

 private:
  struct Open {
    std::string text;  // empty: nothing
    Step step{0};
    TimePoint begin{};
  };
  // In these mutex_ is held.
  void change_step(Step step, std::string_view phase, TimePoint now);
  void close(Track track, std::int32_t lane, Open& open, TimePoint now);
  void close_lanes(TimePoint now);
  void keep(Span span);
  bool is_due(TimePoint now);

  void deliver();

  Clock& clock_;
  const TracerOptions options_;
  const Deliver deliver_;
  std::atomic<bool> over_{false};
  std::mutex delivering_;  // so that what was kept first is delivered first; before mutex_
  std::mutex mutex_;       // guards what follows
  Generation generation_{0};
  Rank rank_{0};
  std::int64_t steps_ = 0;  // begun so far
  Open step_, phase_;
  Step before_{0};  // the one before this step
  std::vector<Open> lanes_;
  std::vector<TimePoint> operations_;  // by their lane: when the last one there ended
  std::vector<Span> spans_;
  TimePoint delivered_{};
};

}  // namespace muster::observe
