#pragma once
// Metrics: named numbers of one step. The names are the same in every sink; these are the ones that
// muster itself reports.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/ids.h"

namespace muster::observe {

namespace metric {
inline constexpr std::string_view kTrainLoss = "train/loss";
inline constexpr std::string_view kGradNorm = "train/grad_norm";
inline constexpr std::string_view kLearningRate = "train/learning_rate";
inline constexpr std::string_view kLossScale = "train/loss_scale";
// Updates of stages that were rolled back (strategy.optimizer_first).
inline constexpr std::string_view kRollbacks = "train/rollbacks";
inline constexpr std::string_view kEvalLoss = "eval/loss";
inline constexpr std::string_view kEvalAccuracy = "eval/accuracy";
inline constexpr std::string_view kEvalBitsPerByte = "eval/bits_per_byte";
inline constexpr std::string_view kStepTime = "perf/step_time_s";
inline constexpr std::string_view kSamplesPerSecond = "perf/samples_per_s";
inline constexpr std::string_view kTokensPerSecond = "perf/tokens_per_s";
inline constexpr std::string_view kMfu = "perf/mfu";  // model FLOPs utilization
inline constexpr std::string_view kCommFraction = "perf/comm_fraction";
inline constexpr std::string_view kDataWaitFraction = "perf/data_wait_fraction";
inline constexpr std::string_view kBytesOnWire = "perf/bytes_on_wire";
inline constexpr std::string_view kPeakRss = "mem/peak_rss_gib";
inline constexpr std::string_view kPeakDevice = "mem/peak_device_gib";
// Seconds of the step spent in each phase (phase_timer.h).
inline constexpr std::string_view kDataWait = "phase/data_wait_s";
inline constexpr std::string_view kForward = "phase/forward_s";
inline constexpr std::string_view kBackward = "phase/backward_s";
inline constexpr std::string_view kExposedComm = "phase/exposed_comm_s";
inline constexpr std::string_view kUpdate = "phase/update_s";
inline constexpr std::string_view kCheckpointStall = "phase/checkpoint_stall_s";
}  // namespace metric

struct Metric {
  std::string name;
  double value = 0;
  friend bool operator==(const Metric&, const Metric&) = default;
};

// One row: what one committed step, or one evaluation after it (names "eval/…"), measured.
struct Metrics {
  Step step{0};
  double epoch = 0;               // epochs completed, with the fraction of the present one
  std::int64_t samples_seen = 0;  // since the run began
  WallTime time{};
  std::vector<Metric> values;

  std::optional<double> find(std::string_view name) const;
  bool is_evaluation() const;  // holds eval/…
  friend bool operator==(const Metrics&, const Metrics&) = default;
};

}  // namespace muster::observe
