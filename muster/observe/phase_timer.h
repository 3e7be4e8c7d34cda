#pragma once
// Where a step's time goes. Costs two clock readings a phase; safe to use from several threads.

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include "muster/base/clock.h"
#include "muster/observe/metric.h"

namespace muster::observe {

enum class Phase : std::uint8_t {
  kDataWait,
  kForward,
  kBackward,
  kExposedComm,  // waiting for communication that backward did not hide
  kUpdate,
  kCheckpointStall,
};
inline constexpr std::size_t kPhaseCount = 6;

std::string_view to_string(Phase phase) noexcept;    // "data wait", for people
std::string_view metric_name(Phase phase) noexcept;  // "phase/data_wait_s"

struct PhaseTimes {
  std::array<Duration, kPhaseCount> phases{};
  Duration step{0};  // the whole of it, what no phase claims included
  std::uint64_t bytes_on_wire = 0;

  Duration operator[](Phase phase) const noexcept {
    return phases[static_cast<std::size_t>(phase)];
  }
  // Adds phase/…, perf/step_time_s, perf/comm_fraction, perf/data_wait_fraction,
  // perf/bytes_on_wire.
  void append_to(Metrics& metrics) const;
};

class PhaseTimer {
 public:
  explicit PhaseTimer(const Clock& clock) : clock_(clock), step_began_(clock.now()) {}

  // Charges its own lifetime to a phase.
  class Scope {
   public:
    Scope(PhaseTimer& timer, Phase phase)
        : timer_(timer), phase_(phase), began_(timer.clock_.now()) {}
    ~Scope() { timer_.add(phase_, timer_.clock_.now() - began_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    PhaseTimer& timer_;
    Phase phase_;
    TimePoint began_;
  };
  [[nodiscard]] Scope measure(Phase phase) { return Scope(*this, phase); }

  // For phases that lanes measure side by side: the caller adds their mean or maximum.
  void add(Phase phase, Duration duration) noexcept;
  void add_bytes_on_wire(std::uint64_t bytes) noexcept;

  // Ends the step: its times, and all counters at zero for the next. One thread, between steps.
  PhaseTimes finish_step() noexcept;

 private:
  const Clock& clock_;
  TimePoint step_began_;
  std::array<std::atomic<std::int64_t>, kPhaseCount> nanoseconds_{};
  std::atomic<std::uint64_t> bytes_on_wire_{0};
};

}  // namespace muster::observe
