#pragma once
// Backup execution: a rank that waits for others computes slices that they have not begun, and
// sends what it found to whose they are. There the first result counts: a lane that comes to the
// slice before computes it itself, and the other one is dropped. Both have the same bits.
// MapReduce's backup tasks (Dean and Ghemawat, OSDI 2004), for the slices of a step.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "muster/base/result.h"
#include "muster/comm/communicator.h"

namespace muster::parallel {

struct Loan {  // a slice of another rank
  Rank owner{0};
  std::int32_t unit = 0;
};

struct Answers {
  std::optional<Loan> loan;
  bool ask_again = false;  // nobody has one now, but somebody has not begun the step
};

// One rank's side in one generation. Thread-safe.
class SliceBackup {
 public:
  // `floats`: of a unit's gradients, alike on all ranks.
  SliceBackup(const std::shared_ptr<comm::Communicator>& communicator, std::size_t floats,
              comm::OpOptions op);
  ~SliceBackup();

  // A new step, on every rank; these units of this one may be computed by others, the last first.
  void open(std::vector<std::int32_t> units);
  // A lane comes to `unit`: its gradients if they are there; else it computes them now, and
  // whatever comes later is dropped.
  std::optional<std::vector<float>> claim(std::int32_t unit);
  // None is left; how many others were sooner to compute.
  std::int32_t close();

  // As the one who waits: asks the others in turn for a slice. Whoever gets one gives.
  Result<Answers> ask();
  Status give(const Loan& loan, std::span<float> floats);

 private:
  class State;
  const std::shared_ptr<State> state_;  // shared with what is under way
};

}  // namespace muster::parallel
