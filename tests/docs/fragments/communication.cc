// What stands around the block of docs/communication.md: page.py puts it in as block.inc.
#include <chrono>

#include "muster/base/result.h"
#include "muster/comm/backend/native/native.h"
#include "muster/comm/communicator.h"
#include "muster/comm/op.h"
#include "muster/comm/work.h"

namespace muster::comm {

using namespace std::chrono_literals;

Status sum(cluster::KvStore& store, net::Network& network, Rank rank, std::int32_t size,
           Generation generation, TensorView view, std::size_t bytes) {
#include "block.inc"
  return status;
}

}  // namespace muster::comm
