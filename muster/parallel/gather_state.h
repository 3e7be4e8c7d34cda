#pragma once
// A state that ranks hold in parts, as whole tensors on one of them: for checkpoints and exports.

#include <cstddef>
#include <vector>

#include "muster/base/ids.h"
#include "muster/base/result.h"
#include "muster/base/tensor_slice.h"
#include "muster/comm/communicator.h"

namespace muster::parallel {

// Keeps the memory of the last gathered state. One thread.
class GatheredState {
 public:
  // Collective: every rank names the slices it has. On rank `to`: all tensors, each once, in the
  // order in which ranks name them; a tensor that `to` holds whole stays where it is, of slices
  // that several ranks hold the first rank's is taken. Valid until the next call. Elsewhere: empty.
  // kInternal where parts of a tensor are nobody's.
  Result<std::vector<TensorSlice>> gather(comm::Communicator& communicator,
                                          const std::vector<TensorSlice>& own, Rank to,
                                          const comm::OpOptions& options);
  void forget() { memory_.clear(); }

 private:
  std::vector<std::vector<std::byte>> memory_;
};

}  // namespace muster::parallel
