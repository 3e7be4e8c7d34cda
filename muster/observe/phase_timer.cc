#include "muster/observe/phase_timer.h"

#include <string>

#include "muster/base/units.h"

namespace muster::observe {
namespace {

struct PhaseName {
  std::string_view text;
  std::string_view metric;
};

constexpr std::array<PhaseName, kPhaseCount> kNames{{{"data wait", metric::kDataWait},
                                                     {"forward", metric::kForward},
                                                     {"backward", metric::kBackward},
                                                     {"communication", metric::kExposedComm},
                                                     {"update", metric::kUpdate},
                                                     {"checkpoint", metric::kCheckpointStall}}};

}  // namespace

std::string_view to_string(Phase phase) noexcept {
  return kNames[static_cast<std::size_t>(phase)].text;
}

std::string_view metric_name(Phase phase) noexcept {
  return kNames[static_cast<std::size_t>(phase)].metric;
}

void PhaseTimes::append_to(Metrics& metrics) const {
  const auto add = [&metrics](std::string_view name, double value) {
    metrics.values.push_back({std::string(name), value});
  };
  const auto fraction = [this](Phase phase) {
    return step > Duration{0} ? to_seconds((*this)[phase]) / to_seconds(step) : 0.0;
  };
  add(metric::kStepTime, to_seconds(step));
  add(metric::kCommFraction, fraction(Phase::kExposedComm));
  add(metric::kDataWaitFraction, fraction(Phase::kDataWait));
  add(metric::kBytesOnWire, static_cast<double>(bytes_on_wire));
  for (std::size_t i = 0; i < kPhaseCount; ++i) add(kNames[i].metric, to_seconds(phases[i]));
}

void PhaseTimer::add(Phase phase, Duration duration) noexcept {
  nanoseconds_[static_cast<std::size_t>(phase)].fetch_add(duration.count(),
                                                          std::memory_order_relaxed);
}

void PhaseTimer::add_bytes_on_wire(std::uint64_t bytes) noexcept {
  bytes_on_wire_.fetch_add(bytes, std::memory_order_relaxed);
}

PhaseTimes PhaseTimer::finish_step() noexcept {
  PhaseTimes times;
  for (std::size_t i = 0; i < kPhaseCount; ++i) {
    times.phases[i] = Duration{nanoseconds_[i].exchange(0, std::memory_order_relaxed)};
  }
  times.bytes_on_wire = bytes_on_wire_.exchange(0, std::memory_order_relaxed);
  const TimePoint now = clock_.now();
  times.step = now - step_began_;
  step_began_ = now;
  return times;
}

}  // namespace muster::observe
