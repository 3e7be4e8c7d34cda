#pragma once
// What training sees of a membership that changes under it: one generation after the other.

#include <cstdint>
#include <memory>
#include <vector>

#include "muster/base/result.h"
#include "muster/comm/communicator.h"

namespace muster::train {

struct Entry {  // one generation, from the inside
  std::shared_ptr<comm::Communicator> communicator;
  std::vector<std::int32_t> workers;  // by rank; numbers that a worker keeps for life
};

// One thread.
class Generations {
 public:
  virtual ~Generations() = default;
  virtual const Entry& current() const noexcept = 0;

  // After an operation that failed with `why`: waits until the next generation has formed and is
  // connected. An error, `why` itself or one that came after it, is the end of the training here:
  // the membership is fixed, the fault was this worker's own, or no next generation came in time.
  virtual Result<Entry> next(const Error& why) = 0;
};

}  // namespace muster::train
