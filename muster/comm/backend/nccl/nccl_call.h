#pragma once
// A collective as NCCL is told of it. Pure.

#include <vector>

#include "muster/comm/backend/nccl/module/muster_nccl.h"
#include "muster/comm/communicator.h"

namespace muster::comm {

struct NcclCall {
  MusterNcclCall call{};  // without its memory, and without `begin`
  TensorView input;       // the caller's, as below
  TensorView output;
  bool in_place = false;            // input is output
  bool reads = true;                // what is in `input` matters here
  std::vector<std::size_t> shards;  // for `begin`; none: blocks of one size
  // Averages that NCCL sums: it divides floats before it adds them, and integers in its own way.
  bool divides = false;

  bool moves() const noexcept { return !input.bytes.empty() || !output.bytes.empty(); }
};

// `op` is no message, and has no tree.
NcclCall nccl_call_of(const Op& op, const Group& group);

// Whether it sums in an order of its own, which NCCL has not.
bool is_ordered(const Op& op) noexcept;

}  // namespace muster::comm
