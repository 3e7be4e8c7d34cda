#include "muster/comm/backend/native/shared_collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "muster/comm/engine/errors.h"
#include "muster/comm/reduce.h"
#include "muster/comm/schedule.h"

namespace muster::comm {
namespace {

constexpr std::int64_t kLineBytes = 64;  // of the cache; what two ranks write apart

// Below: everybody reduces everything alone (one meeting); above: slices (two meetings).
constexpr std::int64_t kAloneBytes = 32 * 1024;
// What one rank reduces at a time: the tiles of a few ranks fit the first-level cache.
constexpr std::int64_t kTileBytes = 8 * 1024;

}  // namespace

// The tensors of one collective, as rows of `count` elements.
struct SharedCollectives::Layout {
  const Op& op;
  Reduce reduce = Reduce::kSum;
  DType dtype = DType::kU8;
  std::size_t width = 1;       // bytes of an element
  std::int64_t count = 0;      // elements of a row
  std::int32_t rows = 1;       // that I expose
  std::int32_t most_rows = 1;  // that any rank exposes
  std::span<std::byte> exposed{};
  std::span<std::byte> output{};
  bool exposes = true;  // Broadcast: only the root does
  const SumTree* tree = nullptr;
  const Shards* shards = nullptr;
  std::int64_t first = 0;  // ReduceScatter: the element with which my output begins

  static Layout of(const Op& op, const Group& group);
  void set_rows(const TensorView& tensor);
  void set_shards(const Shards& in, const Group& group);
  void take(const SumTree& in, const Group& group);
  std::byte* out(std::int64_t element) const noexcept {
    return output.data() + static_cast<std::size_t>(element) * width;
  }
  std::size_t bytes(std::int64_t elements) const noexcept {
    return static_cast<std::size_t>(elements) * width;
  }
};

SharedCollectives::Layout SharedCollectives::Layout::of(const Op& op, const Group& group) {
  Layout layout{op};
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
  } else if (const auto* o4 = std::get_if<Broadcast>(&op)) {
    layout.exposed = layout.output = o4->buffer.bytes;
    layout.exposes = o4->root == group.rank;
    layout.set_rows(o4->buffer);
  } else if (const auto* o5 = std::get_if<AllToAll>(&op)) {
    layout.exposed = o5->input.bytes;
    layout.output = o5->output.bytes;
    layout.set_rows(o5->input);
    layout.rows = layout.most_rows = group.size;
    layout.count /= group.size;
  }
  return layout;
}

// One row, until more is known.
void SharedCollectives::Layout::set_rows(const TensorView& tensor) {
  dtype = tensor.dtype;
  width = size_of(dtype);
  count = tensor.count();
}

void SharedCollectives::Layout::set_shards(const Shards& in, const Group& group) {
  count = in.count();
  first = in.begin_of(group.rank);
}

void SharedCollectives::Layout::take(const SumTree& in, const Group& group) {
  tree = &in;
  count /= tree->rows(group.rank);
  rows = static_cast<std::int32_t>(tree->parts(group.rank).size());
  for (std::int32_t rank = 0; rank < group.size; ++rank)
    most_rows = std::max(most_rows, tree->rows(Rank{rank}));
}

// Where the rows of all ranks lie, for elements from `begin` on.
class SharedCollectives::Windows {
 public:
  Windows(std::int32_t size, std::int64_t begin, std::size_t width)
      : starts_(static_cast<std::size_t>(size)),
        strides_(starts_.size()),
        begin_(begin),
        width_(width) {}

  void set(Rank rank, std::byte* start, std::int64_t stride) {
    starts_[static_cast<std::size_t>(to_int(rank))] = start;
    strides_[static_cast<std::size_t>(to_int(rank))] = stride;
  }
  std::byte* at(std::size_t rank, std::int64_t row, std::int64_t element) const noexcept {
    return starts_[rank] +
           static_cast<std::size_t>(row * strides_[rank] + element - begin_) * width_;
  }
  std::size_t size() const noexcept { return starts_.size(); }

 private:
  std::vector<std::byte*> starts_;
  std::vector<std::int64_t> strides_;  // elements from row to row
  std::int64_t begin_;
  std::size_t width_;
};

namespace {

// Adds up operands along `sums`, reading each where it lies; partial results go to `room`, which
// has space for one tile per operand. Returns where the total is, operand `total`.
const std::byte* combine(DType dtype, Reduce how, std::vector<const std::byte*>& operands,
                         const std::vector<SumTree::Sum>& sums, std::int32_t total, std::byte* room,
                         std::int64_t count) {
  const std::size_t tile = static_cast<std::size_t>(count) * size_of(dtype);
  for (const auto& [left, right] : sums) {
    const auto l = static_cast<std::size_t>(left);
    std::byte* result = room + l * tile;
    reduce(dtype, how, result, operands[l], operands[static_cast<std::size_t>(right)], count);
    operands[l] = result;
  }
  return operands[static_cast<std::size_t>(total)];
}

std::vector<SumTree::Sum> in_rank_order(std::size_t size) {
  std::vector<SumTree::Sum> sums;
  for (std::size_t i = 1; i < size; ++i) sums.push_back({0, static_cast<std::int32_t>(i)});
  return sums;
}

}  // namespace

// What is added to what: rows as (rank, row), numbered as the sums name them.
struct SharedCollectives::Reduction {
  std::vector<std::pair<std::size_t, std::int64_t>> rows;
  std::vector<SumTree::Sum> sums;
  std::int32_t total = 0;  // the row that ends up with it
};

SharedCollectives::Reduction SharedCollectives::reduction_of(const Layout& layout,
                                                             const Group& group) {
  Reduction reduction;
  const auto size = static_cast<std::size_t>(group.size);
  if (layout.tree != nullptr) {
    for (std::size_t rank = 0; rank < size; ++rank) {
      const auto& parts = layout.tree->parts(Rank{static_cast<std::int32_t>(rank)});
      for (std::size_t row = 0; row < parts.size(); ++row)
        reduction.rows.emplace_back(rank, static_cast<std::int64_t>(row));
    }
    reduction.sums = layout.tree->sums();
    reduction.total = layout.tree->total_part();
    return reduction;
  }
  const bool scatter = std::holds_alternative<ReduceScatter>(layout.op) && layout.shards == nullptr;
  for (std::size_t rank = 0; rank < size; ++rank)
    reduction.rows.emplace_back(rank, scatter ? to_int(group.rank) : 0);
  reduction.sums = in_rank_order(size);
  return reduction;
}

Status SharedCollectives::run(const Call& call) {
  sequence_ = call.sequence;
  const Layout layout = Layout::of(call.op, group_->group());
  bring_shard(call.op, layout);
  const std::size_t row_bytes = static_cast<std::size_t>(layout.most_rows) * layout.width;
  const auto fit = static_cast<std::int64_t>(kSlotBytes / row_bytes);
  const std::int64_t chunk = std::max<std::int64_t>(fit / 64 * 64, 1);
  const bool small = static_cast<std::int64_t>(row_bytes) * layout.count <= kAloneBytes;
  MUSTER_TRY(publish(call, layout, small));
  if (layout.count == 0 || std::holds_alternative<Barrier>(call.op)) return ok();
  if (!small && all_exposed(layout)) return run_in_place(call, layout);
  return run_chunks(call, layout, small ? layout.count : chunk, small);
}

// My shard to its place among the others, if it is not there yet.
void SharedCollectives::bring_shard(const Op& op, const Layout& layout) const {
  const auto* gather = std::get_if<AllGather>(&op);
  if (gather == nullptr || layout.shards == nullptr || gather->input.bytes.empty()) return;
  std::memmove(layout.out(layout.shards->begin_of(group_->group().rank)),
               gather->input.bytes.data(), gather->input.bytes.size());
}

// Tells what I am about to do, and with small operations my data as well; then meets.
Status SharedCollectives::publish(const Call& call, const Layout& layout, bool chunked) {
  Line& line = group_->mine().lines[call.sequence % 2];
  line.signature = signature_of(call.op, call.options);
  line.offset = layout.exposes ? group_->offset_of(layout.exposed) : 0;
  if (chunked) copy_in(layout, 0, layout.count);
  MUSTER_TRY(group_->meet(call.deadline));
  return check_signatures(call, line.signature.check);
}

Status SharedCollectives::check_signatures(const Call& call, std::uint64_t mine) const {
  const auto of = [&](std::int32_t rank) -> const Signature& {
    return group_->control(Rank{rank}).lines[call.sequence % 2].signature;
  };
  std::int32_t alike = 0;
  for (std::int32_t rank = 0; rank < group_->group().size; ++rank) alike += of(rank).check == mine;
  if (alike == group_->group().size) return ok();
  std::vector<Signature> calls;
  calls.reserve(static_cast<std::size_t>(group_->group().size));
  for (std::int32_t rank = 0; rank < group_->group().size; ++rank) calls.push_back(of(rank));
  return compare_calls(group_->group(), call.sequence, calls);
}

bool SharedCollectives::all_exposed(const Layout& layout) const {
  for (std::int32_t rank = 0; rank < group_->group().size; ++rank) {
    const auto* broadcast = std::get_if<Broadcast>(&layout.op);
    if (broadcast != nullptr && to_int(broadcast->root) != rank) continue;
    if (group_->control(Rank{rank}).lines[sequence_ % 2].offset == kPrivate) return false;
  }
  return true;
}

Status SharedCollectives::run_in_place(const Call& call, const Layout& layout) {
  Windows windows(group_->group().size, 0, layout.width);
  for (std::int32_t rank = 0; rank < group_->group().size; ++rank) {
    const std::int64_t offset = group_->control(Rank{rank}).lines[sequence_ % 2].offset;
    windows.set(Rank{rank}, group_->memory(Rank{rank}) + offset, layout.count);
  }
  process(call, layout, windows, {0, layout.count}, false);
  return group_->meet(call.deadline);  // nobody reads my tensor any more
}

void SharedCollectives::copy_in(const Layout& layout, std::int64_t begin, std::int64_t end) {
  std::byte* slot = group_->mine().slots.data() + (chunks_ % 2) * kSlotBytes;
  if (!layout.exposes || end == begin) return;
  for (std::int32_t row = 0; row < layout.rows; ++row)
    std::memcpy(slot + layout.bytes(row * (end - begin)),
                layout.exposed.data() + layout.bytes(row * layout.count + begin),
                layout.bytes(end - begin));
}

// `alone`: publish() has copied in and met, and everybody reduces everything.
Status SharedCollectives::run_chunks(const Call& call, const Layout& layout, std::int64_t chunk,
                                     bool alone) {
  for (std::int64_t begin = 0; begin < layout.count; begin += chunk) {
    const std::int64_t end = std::min(begin + chunk, layout.count);
    if (!alone) {
      copy_in(layout, begin, end);
      MUSTER_TRY(group_->meet(call.deadline));
    }
    Windows windows(group_->group().size, begin, layout.width);
    for (std::int32_t rank = 0; rank < group_->group().size; ++rank) {
      Control& peer = group_->control(Rank{rank});
      windows.set(Rank{rank}, peer.slots.data() + (chunks_ % 2) * kSlotBytes, end - begin);
    }
    process(call, layout, windows, {begin, end}, alone);
    if (!alone && std::holds_alternative<AllReduce>(call.op)) {
      MUSTER_TRY(group_->meet(call.deadline));  // all slices are in my slot
      const auto me = static_cast<std::size_t>(to_int(group_->group().rank));
      std::memcpy(layout.out(begin), windows.at(me, 0, begin), layout.bytes(end - begin));
    }
    ++chunks_;
  }
  return ok();
}

void SharedCollectives::process(const Call& call, const Layout& layout, const Windows& windows,
                                Elements part, bool alone) {
  const std::size_t length = layout.bytes(part.end - part.begin);
  const std::int32_t me = to_int(group_->group().rank);
  const auto from = [&](std::size_t rank, std::int64_t row, std::int64_t out_row) {
    std::memcpy(layout.out(out_row * layout.count + part.begin), windows.at(rank, row, part.begin),
                length);
  };
  if (const auto* broadcast = std::get_if<Broadcast>(&call.op)) {
    if (!layout.exposes) from(static_cast<std::size_t>(to_int(broadcast->root)), 0, 0);
  } else if (layout.shards != nullptr) {
    process_shards(call, layout, windows, part);
  } else if (std::holds_alternative<AllGather>(call.op)) {
    for (std::size_t rank = 0; rank < windows.size(); ++rank)
      from(rank, 0, static_cast<std::int64_t>(rank));
  } else if (std::holds_alternative<AllToAll>(call.op)) {
    for (std::size_t rank = 0; rank < windows.size(); ++rank)
      from(rank, me, static_cast<std::int64_t>(rank));
  } else {
    const bool share = std::holds_alternative<AllReduce>(call.op) && !alone;
    reduce_part(layout, windows, share ? my_share(part, layout.width) : part, share);
  }
}

// Of `part`, my own shard is summed; or the others' shards are copied from where they lie.
void SharedCollectives::process_shards(const Call& call, const Layout& layout,
                                       const Windows& windows, Elements part) {
  const auto common = [&](Rank rank) {
    const std::int64_t begin = layout.shards->begin_of(rank);
    const std::int64_t end = begin + layout.shards->count_of(rank);
    return Elements{std::max(part.begin, begin), std::min(part.end, end)};
  };
  const Rank me = group_->group().rank;
  if (std::holds_alternative<ReduceScatter>(call.op))
    return reduce_part(layout, windows, common(me), false);
  for (std::int32_t rank = 0; rank < group_->group().size; ++rank) {
    const Elements theirs = common(Rank{rank});
    if (Rank{rank} == me || theirs.begin >= theirs.end) continue;
    std::memcpy(layout.out(theirs.begin),
                windows.at(static_cast<std::size_t>(rank), 0, theirs.begin),
                layout.bytes(theirs.end - theirs.begin));
  }
}

// Cut at cache lines, so that no two ranks write the same one.
SharedCollectives::Elements SharedCollectives::my_share(Elements part, std::size_t width) const {
  const auto line = kLineBytes / static_cast<std::int64_t>(width);
  const std::int64_t lines = (part.end - part.begin + line - 1) / line;
  const Slice mine =
      even_slice(Space::kOutput, lines, group_->group().size, to_int(group_->group().rank));
  return {std::min(part.begin + mine.begin * line, part.end),
          std::min(part.begin + (mine.begin + mine.count) * line, part.end)};
}

// Reduces elements of all ranks' rows tile by tile; the result goes into row 0 of everybody
// (`share`) or to my output.
void SharedCollectives::reduce_part(const Layout& layout, const Windows& windows, Elements part,
                                    bool share) {
  const Reduction reduction = reduction_of(layout, group_->group());
  const Reduce how = layout.reduce;
  const auto tile = kTileBytes / static_cast<std::int64_t>(layout.width);
  const std::size_t operands = reduction.rows.size();
  tile_.resize(operands * kTileBytes);
  std::vector<const std::byte*> values(operands);
  for (std::int64_t at = part.begin; at < part.end; at += tile) {
    const std::int64_t count = std::min(tile, part.end - at);
    for (std::size_t i = 0; i < operands; ++i)
      values[i] = windows.at(reduction.rows[i].first, reduction.rows[i].second, at);
    const std::byte* total =
        combine(layout.dtype, how, values, reduction.sums, reduction.total, tile_.data(), count);
    if (how == Reduce::kAvg) {
      std::memmove(tile_.data(), total, layout.bytes(count));
      divide(layout.dtype, tile_.data(), count, group_->group().size);
      total = tile_.data();
    }
    if (!share) std::memmove(layout.out(at - layout.first), total, layout.bytes(count));
    for (std::size_t rank = 0; share && rank < windows.size(); ++rank)
      std::memmove(windows.at(rank, 0, at), total, layout.bytes(count));
  }
}

}  // namespace muster::comm
