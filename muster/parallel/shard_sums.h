#pragma once
// One rank's shard of the gradients, summed over units (slices of the batch) along the fixed tree
// of comm/sum_tree.h, whatever the order in which they come. A unit whose neighbour is there is
// added to it at once: units that come in their order, bucket by bucket, need memory for as many
// sums as the number of units so far has ones in binary. Where other replicas have some of the
// units, there is a sum for each whole subtree of those here, its parts. One thread at a time.

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "muster/base/dtype.h"
#include "muster/comm/sum_tree.h"

namespace muster::parallel {

class ShardSums {
 public:
  // `parts`: of the units here, as comm::SumTree has them. `sizes`: floats of this rank's shard of
  // each bucket; `dtypes`: in which it is summed.
  ShardSums(std::vector<comm::LeafRange> parts, std::vector<std::int64_t> sizes,
            std::vector<DType> dtypes);

  void begin();  // a new step: forgets the sums of the last one

  // This rank's part of what `unit` has in `bucket`. A unit of several passes comes `passes` times,
  // in their order, and is their sum.
  void add(std::int32_t unit, std::size_t bucket, std::span<const float> values, std::int32_t pass,
           std::int32_t passes);

  // Once every unit was added. Stays where it is for this object's life.
  std::span<float> sum(std::size_t bucket) { return rows_[bucket].first(sizes_[bucket]); }
  // Of all parts, one behind the other; where there is none, the memory of one.
  std::span<float> rows(std::size_t bucket) { return rows_[bucket]; }

  std::uint64_t bytes() const noexcept { return bytes_; }  // the most that was held at a time

 private:
  struct Node {
    comm::LeafRange range;
    std::int32_t parent = -1;
    std::int32_t sibling = -1;
    bool right = false;
    std::int32_t row = -1;  // of its part, where it is at the begin of that
  };
  struct Block {
    std::unique_ptr<float[]> floats;
    std::size_t size = 0;
  };
  struct Held {  // the sum of one node, or what has come of it
    float* floats = nullptr;
    Block block = {};  // none: in the row
    bool complete = false;
  };
  using Nodes = std::map<std::int32_t, Held>;

  std::int32_t build(comm::LeafRange range, std::int32_t parent, bool right, std::int32_t row);
  Held room(std::int32_t node, std::size_t bucket);
  void climb(std::int32_t node, std::size_t bucket);
  Block take(std::size_t size);
  void give_back(Block block);

  const std::vector<DType> dtypes_;
  std::vector<std::size_t> sizes_;
  std::vector<Node> nodes_;
  std::vector<std::int32_t> node_of_unit_;  // -1: not here
  std::vector<float> memory_;
  std::vector<std::span<float>> rows_;  // by bucket: [parts, floats], their sums
  std::vector<Nodes> held_;             // by bucket
  std::vector<Block> free_;
  std::uint64_t bytes_ = 0;
};

}  // namespace muster::parallel
