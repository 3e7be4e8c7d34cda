#pragma once
// Two ranks of engine `native` on this host alone, threads of this process: what finds out whether
// and how well the engine works here.

#include <functional>
#include <memory>
#include <vector>

#include "muster/base/result.h"
#include "muster/comm/backend/native/native.h"
#include "muster/comm/communicator.h"

namespace muster::app {

using LocalRanks = std::vector<std::shared_ptr<comm::Communicator>>;

// Each on a thread of its own; the error of the lowest that has one. Who fails ends the others.
Status on_each(const LocalRanks& ranks, const std::function<Status(comm::Communicator&)>& body);

class TwoRanks {
 public:
  // In shared memory, or (kTcp) over the loopback interface with certificates as a job has them,
  // each with a network of its own. `limit`: how long one waits for the other. `book`: of the first
  // one, outlives the call.
  static Result<std::unique_ptr<TwoRanks>> connect(comm::NativeTransport transport, Duration limit,
                                                   comm::CostBook* book = nullptr);
  virtual ~TwoRanks() = default;

  virtual const LocalRanks& ranks() const noexcept = 0;
};

}  // namespace muster::app
