#pragma once
// One collective at one size, as the benchmark runs it: its tensors, what they must hold
// afterwards, and what it has to move.

#include <cstdint>

#include "muster/app/bench/comm_bench.h"
#include "muster/base/tensor_view.h"

namespace muster::app {

// Two pieces of memory, each large enough for every size.
struct BenchBuffers {
  std::span<std::byte> first;
  std::span<std::byte> second;
};

class TimedOperation {  // cheap; the buffers live longer
 public:
  TimedOperation(Collective collective, std::uint64_t bytes, DType dtype, comm::Group group,
                 BenchBuffers buffers);

  const comm::Op& op() const noexcept { return op_; }
  std::uint64_t bytes() const noexcept;  // of the larger tensor
  void fill() const;                     // what this rank brings
  Status check() const;                  // after it; kInternal names the element
  void clear() const;                    // zeros, which sums keep

  // Copied by each rank where they share memory, and sent by each where they do not, by an
  // algorithm that moves as little as can be.
  std::uint64_t bytes_to_copy() const noexcept;
  std::uint64_t bytes_to_send() const noexcept;

 private:
  double expected(std::int64_t i) const noexcept;
  double brought(std::int64_t i) const noexcept;

  Collective collective_;
  comm::Group group_;
  TensorView input_;
  TensorView output_;  // the same where it is in place
  comm::Op op_;
};

// The least that is sent for each byte of the larger tensor, by the rank that sends most.
double sent_share(Collective collective, std::int32_t ranks) noexcept;

}  // namespace muster::app
