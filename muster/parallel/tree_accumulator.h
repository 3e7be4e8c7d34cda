#pragma once
// Sums the gradients of a worker's units (slices of the batch) along the fixed tree of
// comm/sum_tree.h while they are being computed, by any number of lanes and in any order of
// arrival, with the same bits; in a bucket of 16 bits every unit's gradient and every sum of two is
// rounded to that type. Each inner node is summed by the lane that completes it, bucket by
// bucket, inside backward, while the numbers are still in the cache. A right-hand leaf whose left
// neighbour is complete adds itself straight into it, so on one lane half of the leaves need no
// memory.
//
// Threads: `add` may be called by several lanes at once, each unit by one lane only; begin() when
// no lane is adding.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "muster/comm/sum_tree.h"
#include "muster/parallel/bucket_layout.h"

namespace muster::parallel {

class TreeAccumulator {
 public:
  // `parts`: this worker's whole subtrees, in unit order. `rows[b]`: [parts, layout.sizes[b]]; the
  // sum of part p ends up in its row p. `ready(b)` is called once a step for each bucket, by the
  // lane that completed it, in any order; not at all without parts.
  TreeAccumulator(BucketLayout layout, std::vector<comm::LeafRange> parts,
                  std::vector<std::span<float>> rows, std::function<void(std::int32_t)> ready);
  ~TreeAccumulator();

  // A new step: forgets the sums of the last one.
  void begin();

  // The gradient of `slot` in `unit` (numbered as in `parts`). A unit of several micro-batches adds
  // each slot `passes` times, with pass 0 … passes-1; they are summed in that order first.
  void add(std::int32_t unit, std::int32_t slot, std::span<const float> values,
           std::int32_t pass = 0, std::int32_t passes = 1);

  // After begin(), instead of adding the units of `range`, a subtree inside one of the parts: its
  // sum of `bucket` is known from an attempt at the same step that did not come to its end.
  void seed(comm::LeafRange range, std::int32_t bucket, std::span<const float> sum);

  const BucketLayout& layout() const noexcept { return layout_; }

 private:
  struct Node;
  struct Scratch;
  struct LeafBucket;

  std::int32_t build(comm::LeafRange range, std::int32_t parent, std::int32_t part);
  std::span<float> memory(const Node& node, std::int32_t bucket);
  void climb(std::int32_t node, std::int32_t bucket);
  void merge(Node& parent, std::int32_t bucket);
  void reserve_scratch(Node& leaf);
  void release_scratch(Node& leaf);

  BucketLayout layout_;
  std::vector<comm::LeafRange> parts_;
  std::vector<std::span<float>> rows_;
  std::function<void(std::int32_t)> ready_;
  std::int32_t first_unit_ = 0;
  std::vector<std::int64_t> bucket_begin_;  // of each bucket in a scratch block, in floats
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::int32_t> leaf_of_unit_;
  std::vector<std::atomic<std::int32_t>> parts_left_;  // by bucket

  std::mutex scratch_mutex_;
  std::vector<std::unique_ptr<Scratch>> free_scratch_;  // guarded by scratch_mutex_
};

}  // namespace muster::parallel
