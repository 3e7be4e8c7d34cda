#pragma once
// What each stage of a pipeline knows of a step by itself, and all have to know before it counts:
// loss, flags, norms of gradients. One thread.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "muster/comm/communicator.h"
#include "muster/parallel/strategy.h"

namespace muster::parallel {

class StageTotals {
 public:
  // Of a model with so many parameters, each in so many parts at most. All zero: what only other
  // ranks know stays so, and the sum over ranks is exact in any order.
  StageTotals(std::size_t parameters, std::size_t parts);

  void put_loss(const StepReport& report);  // and accuracy
  void put_flags(const StepReport& report);
  void put_square(std::size_t parameter, std::size_t part, double square);  // squared norm
  void put_ahead();  // this rank updates before it knows the others'

  // Collective: makes them those of all ranks. Begins at once, whether anybody waits or not.
  comm::Work sum(comm::Communicator& communicator, const comm::OpOptions& op) const;

  // Once that has ended well.
  void read(StepReport& report) const;  // loss, accuracy, flags
  std::int32_t ahead() const;           // ranks that update already
  std::vector<double> squares() const;  // by parameter

 private:
  std::size_t parts_;
  std::shared_ptr<std::vector<double>> numbers_;  // with the operation, which may outlive this
};

}  // namespace muster::parallel
