#pragma once
// Progress: what the console knows of a run, from the records so far. A state machine without I/O.

#include <array>
#include <optional>

#include "muster/observe/event.h"
#include "muster/observe/phase_timer.h"

namespace muster::observe {

// A ratio of two sums in which what is older counts less: a rate that is calm but follows.
class SmoothedRatio {
 public:
  explicit SmoothedRatio(double time_constant_s) : time_constant_s_(time_constant_s) {}
  // `amount` during `weight`, which took `seconds`.
  void add(double amount, double weight, double seconds);
  std::optional<double> value() const;

 private:
  double time_constant_s_;
  double amount_ = 0;
  double weight_ = 0;
};

class Progress {
 public:
  void take(const RunStarted& started);
  void take(const Metrics& row);  // of training; evaluations only pass time

  const RunStarted& run() const noexcept { return run_; }
  const Metrics& last() const noexcept { return last_; }
  bool has_step() const noexcept { return has_step_; }

  std::optional<double> fraction() const;            // of the whole run, [0, 1]
  std::optional<double> samples_per_second() const;  // while training
  // Evaluations and stalls included; one far longer than a step counts in full once its like has
  // come before.
  std::optional<Duration> left() const;
  std::optional<double> share(Phase phase) const;  // of the step's time, [0, 1]

 private:
  double expected(double passed);
  RunStarted run_;
  Metrics last_;
  bool has_step_ = false;
  SmoothedRatio overall_{20};  // samples over wall time, as far as it is expected to go on so
  SmoothedRatio between_{20};  // that time, from one row to the next
  double longest_ = 0;         // of all times between two rows
  SmoothedRatio rate_{5};      // samples over time within steps
  std::array<SmoothedRatio, kPhaseCount> phases_{SmoothedRatio{5}, SmoothedRatio{5},
                                                 SmoothedRatio{5}, SmoothedRatio{5},
                                                 SmoothedRatio{5}, SmoothedRatio{5}};
};

}  // namespace muster::observe
