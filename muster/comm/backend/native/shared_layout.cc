#include "muster/comm/backend/native/shared_layout.h"

#include <algorithm>

namespace muster::comm {

SharedLayout SharedLayout::of(const Op& op, const Group& group) {
  SharedLayout layout{op};
  if (const auto* o = std::get_if<AllReduce>(&op)) {
    layout.reduce = o->reduce;
    layout.exposed = layout.output = o->buffer.bytes;
    layout.set_rows(o->buffer);
    if (o->tree) layout.take(*o->tree, group);
  } else if (const auto* o2 = std::get_if<ReduceScatter>(&op)) {
    layout.reduce = o2->reduce;
    layout.exposed = o2->input.bytes;
    layout.output = o2->output.bytes;
    layout.set_rows(o2->output);
    layout.shards = o2->shards.get();
    if (o2->tree) layout.take(*o2->tree, group);
    if (layout.shards != nullptr)
      layout.set_shards(*layout.shards, group);
    else
      layout.rows = layout.most_rows = group.size;
  } else if (const auto* o3 = std::get_if<AllGather>(&op)) {
    layout.shards = o3->shards.get();
    layout.exposed = layout.shards != nullptr ? o3->output.bytes : o3->input.bytes;
    layout.output = o3->output.bytes;
    layout.set_rows(layout.shards != nullptr ? o3->output : o3->input);
    layout.moved = layout.shards != nullptr ? layout.count / group.size : layout.count;
  } else if (const auto* o4 = std::get_if<Broadcast>(&op)) {
    layout.exposed = layout.output = o4->buffer.bytes;
    layout.exposes = o4->root == group.rank;
    layout.set_rows(o4->buffer);
    layout.moved = layout.count;
  } else if (const auto* o5 = std::get_if<AllToAll>(&op)) {
    layout.exposed = o5->input.bytes;
    layout.output = o5->output.bytes;
    layout.set_rows(o5->input);
    layout.rows = layout.most_rows = group.size;
    layout.count /= group.size;
    layout.moved = layout.count;
  }
  return layout;
}

// One row, until more is known.
void SharedLayout::set_rows(const TensorView& tensor) {
  dtype = tensor.dtype;
  width = size_of(dtype);
  count = tensor.count();
}

void SharedLayout::set_shards(const Shards& in, const Group& group) {
  count = in.count();
  first = in.begin_of(group.rank);
}

void SharedLayout::take(const SumTree& in, const Group& group) {
  tree = &in;
  count /= tree->rows(group.rank);
  rows = static_cast<std::int32_t>(tree->parts(group.rank).size());
  for (std::int32_t rank = 0; rank < group.size; ++rank)
    most_rows = std::max(most_rows, tree->rows(Rank{rank}));
}

void SharedReduction::set(const SharedLayout& layout, const Group& group) {
  const auto size = static_cast<std::size_t>(group.size);
  rows.clear();
  if (layout.tree != nullptr) {
    for (std::size_t rank = 0; rank < size; ++rank) {
      const auto& parts = layout.tree->parts(Rank{static_cast<std::int32_t>(rank)});
      for (std::size_t row = 0; row < parts.size(); ++row)
        rows.emplace_back(rank, static_cast<std::int64_t>(row));
    }
    sums = layout.tree->sums();
    total = layout.tree->total_part();
    return;
  }
  const bool scatter = std::holds_alternative<ReduceScatter>(layout.op) && layout.shards == nullptr;
  sums.clear();
  for (std::size_t rank = 0; rank < size; ++rank) {
    rows.emplace_back(rank, scatter ? to_int(group.rank) : 0);
    if (rank > 0) sums.push_back({0, static_cast<std::int32_t>(rank)});
  }
  total = 0;
}

}  // namespace muster::comm
