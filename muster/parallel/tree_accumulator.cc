#include "muster/parallel/tree_accumulator.h"

#include <algorithm>
#include <utility>

#include "muster/base/check.h"
#include "muster/parallel/float_sums.h"

namespace muster::parallel {

struct TreeAccumulator::Scratch {
  std::vector<float> floats;
};

// What a leaf does with its own part of one bucket. Written by the leaf's lane only, read by others
// after the leaf is complete.
struct TreeAccumulator::LeafBucket {
  std::int32_t slots_left = 0;
  bool begun = false;
  bool direct = false;  // adds straight into the left neighbour's memory
};

struct TreeAccumulator::Node {
  comm::LeafRange range;
  std::int32_t parent = -1;
  std::int32_t left = -1;  // children; -1: a leaf
  std::int32_t right = -1;
  std::int32_t part = 0;
  bool in_row = false;           // its memory is the part's row, else a scratch block
  std::int32_t first_leaf = -1;  // the leaf whose memory an inner node takes over
  std::vector<std::atomic<std::int32_t>> children_left;  // by bucket; inner nodes
  std::vector<std::atomic<bool>> complete;               // by bucket
  std::vector<LeafBucket> buckets;                       // leaves
  std::unique_ptr<Scratch> scratch;                      // leaves that are not in_row
  std::atomic<std::int32_t> buckets_unmerged{0};         // the scratch block goes back at 0
};

TreeAccumulator::TreeAccumulator(BucketLayout layout, std::vector<comm::LeafRange> parts,
                                 std::vector<std::span<float>> rows,
                                 std::function<void(std::int32_t)> ready)
    : layout_(std::move(layout)),
      parts_(std::move(parts)),
      rows_(std::move(rows)),
      ready_(std::move(ready)),
      parts_left_(layout_.sizes.size()) {
  std::int64_t begin = 0;
  for (const std::int64_t size : layout_.sizes) {
    bucket_begin_.push_back(begin);
    begin += size;
  }
  if (parts_.empty()) return;
  first_unit_ = parts_.front().begin;
  leaf_of_unit_.resize(static_cast<std::size_t>(parts_.back().end - first_unit_));
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    build(parts_[part], -1, static_cast<std::int32_t>(part));
  }
}

TreeAccumulator::~TreeAccumulator() = default;

std::int32_t TreeAccumulator::build(comm::LeafRange range, std::int32_t parent, std::int32_t part) {
  const auto index = static_cast<std::int32_t>(nodes_.size());
  Node& node = *nodes_.emplace_back(std::make_unique<Node>());
  const std::size_t buckets = layout_.sizes.size();
  node.range = range;
  node.parent = parent;
  node.part = part;
  node.in_row = range.begin == parts_[static_cast<std::size_t>(part)].begin;
  node.complete = std::vector<std::atomic<bool>>(buckets);
  if (range.size() == 1) {
    node.first_leaf = index;
    node.buckets.resize(buckets);
    leaf_of_unit_[static_cast<std::size_t>(range.begin - first_unit_)] = index;
    return index;
  }
  node.children_left = std::vector<std::atomic<std::int32_t>>(buckets);
  const std::int32_t middle = comm::split_point(range);
  node.left = build({range.begin, middle}, index, part);
  node.right = build({middle, range.end}, index, part);
  node.first_leaf = nodes_[static_cast<std::size_t>(node.left)]->first_leaf;
  return index;
}

void TreeAccumulator::begin() {
  for (const auto& node : nodes_) {
    for (auto& left : node->children_left) left.store(2, std::memory_order_relaxed);
    for (auto& complete : node->complete) complete.store(false, std::memory_order_relaxed);
    for (std::size_t b = 0; b < node->buckets.size(); ++b) {
      node->buckets[b] = {.slots_left = layout_.slots_in[b]};
    }
    node->buckets_unmerged.store(static_cast<std::int32_t>(node->buckets.size()));
    if (node->scratch) release_scratch(*node);  // left over from a step that ended in an error
  }
  for (auto& left : parts_left_) {
    left.store(static_cast<std::int32_t>(parts_.size()), std::memory_order_release);
  }
}

std::span<float> TreeAccumulator::memory(const Node& node, std::int32_t bucket) {
  const auto b = static_cast<std::size_t>(bucket);
  const auto size = static_cast<std::size_t>(layout_.sizes[b]);
  if (node.in_row) return rows_[b].subspan(static_cast<std::size_t>(node.part) * size, size);
  const Node& leaf = *nodes_[static_cast<std::size_t>(node.first_leaf)];
  return {leaf.scratch->floats.data() + bucket_begin_[b], size};
}

void TreeAccumulator::add(std::int32_t unit, std::int32_t slot, std::span<const float> values,
                          std::int32_t pass, std::int32_t passes) {
  const std::int32_t index = leaf_of_unit_[static_cast<std::size_t>(unit - first_unit_)];
  Node& leaf = *nodes_[static_cast<std::size_t>(index)];
  const BucketSlot& place = layout_.slots[static_cast<std::size_t>(slot)];
  MUSTER_DCHECK(static_cast<std::int64_t>(values.size()) == place.count, "size of a gradient");
  LeafBucket& state = leaf.buckets[static_cast<std::size_t>(place.bucket)];
  const DType dtype = layout_.dtypes[static_cast<std::size_t>(place.bucket)];
  const Node* left = nullptr;
  if (leaf.parent >= 0 && dtype == DType::kF32) {
    const Node& parent = *nodes_[static_cast<std::size_t>(leaf.parent)];
    if (parent.right == index) left = nodes_[static_cast<std::size_t>(parent.left)].get();
  }
  if (!state.begun) {
    state.begun = true;
    state.direct =
        left != nullptr && passes == 1 &&
        left->complete[static_cast<std::size_t>(place.bucket)].load(std::memory_order_acquire);
    if (!state.direct && !leaf.in_row && !leaf.scratch) reserve_scratch(leaf);
  }
  float* to = memory(state.direct ? *left : leaf, place.bucket).data() + place.offset;
  if (state.direct || pass > 0) {
    add_into(to, values.data(), values.size());
  } else {
    std::copy(values.begin(), values.end(), to);
  }
  if (pass + 1 < passes) return;
  round_as(dtype, to, values.size());
  if (--state.slots_left > 0) return;
  climb(index, place.bucket);
}

void TreeAccumulator::seed(comm::LeafRange range, std::int32_t bucket, std::span<const float> sum) {
  const auto found = std::find_if(nodes_.begin(), nodes_.end(),
                                  [&](const auto& node) { return node->range == range; });
  MUSTER_CHECK(found != nodes_.end(), "a seed is a subtree of one part");
  Node& leaf = *nodes_[static_cast<std::size_t>((*found)->first_leaf)];
  if (!leaf.in_row && !leaf.scratch) reserve_scratch(leaf);
  std::copy(sum.begin(), sum.end(), memory(**found, bucket).begin());
  climb(static_cast<std::int32_t>(found - nodes_.begin()), bucket);
}

// `index` holds its sum of `bucket`: goes up the tree as far as both children of a node are there.
void TreeAccumulator::climb(std::int32_t index, std::int32_t bucket) {
  const auto b = static_cast<std::size_t>(bucket);
  Node* node = nodes_[static_cast<std::size_t>(index)].get();
  node->complete[b].store(true, std::memory_order_release);
  while (node->parent >= 0) {
    Node& parent = *nodes_[static_cast<std::size_t>(node->parent)];
    if (parent.children_left[b].fetch_sub(1, std::memory_order_acq_rel) > 1) return;
    merge(parent, bucket);
    node = &parent;
    node->complete[b].store(true, std::memory_order_release);
  }
  if (parts_left_[b].fetch_sub(1, std::memory_order_acq_rel) == 1) ready_(bucket);
}

void TreeAccumulator::merge(Node& parent, std::int32_t bucket) {
  const auto b = static_cast<std::size_t>(bucket);
  Node& right = *nodes_[static_cast<std::size_t>(parent.right)];
  if (right.buckets.empty() || !right.buckets[b].direct) {
    const std::span<float> from = memory(right, bucket);
    float* to = memory(parent, bucket).data();
    add_into(to, from.data(), from.size());
    round_as(layout_.dtypes[b], to, from.size());
  }
  Node& owner = *nodes_[static_cast<std::size_t>(right.first_leaf)];
  const bool last = owner.buckets_unmerged.fetch_sub(1, std::memory_order_acq_rel) == 1;
  if (last && owner.scratch) release_scratch(owner);
}

void TreeAccumulator::reserve_scratch(Node& leaf) {
  const std::lock_guard lock(scratch_mutex_);
  if (free_scratch_.empty()) {
    leaf.scratch = std::make_unique<Scratch>();
    leaf.scratch->floats.resize(static_cast<std::size_t>(layout_.total()));
  } else {
    leaf.scratch = std::move(free_scratch_.back());
    free_scratch_.pop_back();
  }
}

void TreeAccumulator::release_scratch(Node& leaf) {
  const std::lock_guard lock(scratch_mutex_);
  free_scratch_.push_back(std::move(leaf.scratch));
}

}  // namespace muster::parallel
