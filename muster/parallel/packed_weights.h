#pragma once
// A bucket of weights on its way to passes of 16 bits: those that only products use, which would
// round them (models/precision.h), are rounded by their owner, the others go as they are, all of
// them in words of 16 bits. They arrive in the last bytes of the memory that they are unpacked in,
// as f32. Pure; alike on every rank.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "muster/base/dtype.h"
#include "muster/base/ids.h"
#include "muster/base/tensor_view.h"
#include "muster/comm/op.h"

namespace muster::parallel {

class PackedWeights {
 public:
  struct Run {             // of floats of the bucket
    std::int64_t end = 0;  // where the next one begins
    bool narrow = false;   // rounded
  };
  // `dtype`: kF16 or kBF16. `shards`: of the bucket's floats; `runs`: all of them, in order.
  PackedWeights(DType dtype, const comm::Shards& shards, std::vector<Run> runs);

  // In words.
  const std::shared_ptr<const comm::Shards>& shards() const noexcept { return shards_; }
  // `bucket`: the memory of all its floats, of which these words are at the end.
  TensorView words_in(std::span<float> bucket) const;
  // Writes a rank's shard to its place among them, and says where that is.
  TensorView pack(std::span<const float> own, Rank rank, std::span<float> bucket) const;
  // Once all words are there: the floats in their stead.
  void unpack(std::span<float> bucket) const;

 private:
  // Calls visit(begin, end, narrow) for the runs' parts of floats [begin, end).
  template <class Visit>
  void for_runs(std::int64_t begin, std::int64_t end, const Visit& visit) const;
  std::int64_t words_before(std::int64_t end) const;

  const DType dtype_;
  const std::vector<Run> runs_;
  const std::vector<std::int64_t> begin_;  // of each rank's shard, in floats
  const std::shared_ptr<const comm::Shards> shards_;
};

}  // namespace muster::parallel
