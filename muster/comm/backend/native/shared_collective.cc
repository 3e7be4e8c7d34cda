#include "muster/comm/backend/native/shared_collective.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "muster/base/round_up.h"
#include "muster/comm/engine/errors.h"
#include "muster/comm/schedule.h"

namespace muster::comm {
namespace {

constexpr std::int64_t kLineBytes = 64;  // of the cache; what two ranks write apart

// Below: everybody reduces everything alone (one meeting); above: slices (two meetings), which are
// dear where ranks share cores.
constexpr std::int64_t kAloneBytes = 4 * 1024;
constexpr std::int64_t kAloneBytesCrowded = 64 * 1024;
// What one rank reduces at a time: the tiles of a few ranks fit the first-level cache.
constexpr std::int64_t kTileBytes = 8 * 1024;
// What is read out of another process between two looks at whether somebody has given up.
constexpr std::size_t kReadBytes = std::size_t{1} << 20;

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, bytes);
}

// Elements: whole lines of them, so many that all rows fit a slot.
std::int64_t chunk_of(const SharedLayout& layout) {
  const std::size_t fit = kSlotBytes / layout.row_bytes();
  return std::max<std::int64_t>(static_cast<std::int64_t>(fit) / 64 * 64, 1);
}

bool fits_flag(const SharedLayout& layout) {
  return layout.row_bytes() * static_cast<std::size_t>(layout.count) <= sizeof(Flag::payload);
}

}  // namespace

Status SharedCollectives::run(const Call& call) {
  const SharedLayout layout = SharedLayout::of(call.op, group_->group());
  bring_shard(layout);
  const bool alone = static_cast<std::int64_t>(layout.row_bytes()) * layout.count <= alone_bytes();
  MUSTER_TRY(publish(call, layout, alone));
  if (layout.count == 0 || std::holds_alternative<Barrier>(call.op)) return ok();
  reduction_.set(layout, group_->group());
  windows_.clear(group_->group().size, layout.width);
  if (alone) return run_alone(call, layout);
  if (all_exposed(layout)) return run_in_place(call, layout);
  return run_chunks(call, layout);
}

std::int64_t SharedCollectives::alone_bytes() const noexcept {
  return group_->crowded() ? kAloneBytesCrowded : kAloneBytes;
}

// My shard to its place among the others, if it is not there yet.
void SharedCollectives::bring_shard(const SharedLayout& layout) const {
  const auto* gather = std::get_if<AllGather>(&layout.op);
  if (gather == nullptr || layout.shards == nullptr || gather->input.bytes.empty()) return;
  std::memmove(layout.out(layout.shards->begin_of(group_->group().rank)),
               gather->input.bytes.data(), gather->input.bytes.size());
}

// Tells what I am about to do, and with small operations my data as well; then meets.
Status SharedCollectives::publish(const Call& call, const SharedLayout& layout, bool alone) {
  Signature& signature = group_->mine().calls[call.sequence % 2];
  signature = signature_of(call.op, call.options);
  Flag& flag = group_->next_flag();
  flag.check = signature.check;
  if (alone)
    copy_in(layout, fits_flag(layout) ? flag.payload.data() : slot(group_->group().rank, chunks_),
            {0, layout.count}, {0, layout.count});
  else
    expose(layout, flag);
  MUSTER_TRY(group_->meet(call.deadline));
  return check_signatures(call, signature.check);
}

// Where the others find my tensor.
void SharedCollectives::expose(const SharedLayout& layout, Flag& flag) const {
  flag.exposure = Exposure::kSlots;
  flag.at = 0;
  if (!layout.exposes) return;
  if (const auto offset = group_->offset_of(layout.exposed)) {
    flag.exposure = Exposure::kMemory;
    flag.at = *offset;
    return;
  }
  const bool large = layout.moved > 0 && layout.bytes(layout.moved) >= group_->reads_from();
  if (!large || !group_->process(group_->group().rank).can_read(layout.exposed)) return;
  flag.exposure = Exposure::kProcess;
  flag.at = std::bit_cast<std::uintptr_t>(layout.exposed.data());
}

Status SharedCollectives::check_signatures(const Call& call, std::uint64_t mine) const {
  const std::int32_t size = group_->group().size;
  std::int32_t alike = 0;
  for (std::int32_t rank = 0; rank < size; ++rank) alike += group_->flag(Rank{rank}).check == mine;
  if (alike == size) return ok();
  std::vector<Signature> calls;
  calls.reserve(static_cast<std::size_t>(size));
  for (std::int32_t rank = 0; rank < size; ++rank)
    calls.push_back(group_->control(Rank{rank}).calls[call.sequence % 2]);
  return compare_calls(group_->group(), call.sequence, calls);
}

bool SharedCollectives::all_exposed(const SharedLayout& layout) const {
  for (std::int32_t rank = 0; rank < group_->group().size; ++rank) {
    const auto* broadcast = std::get_if<Broadcast>(&layout.op);
    if (broadcast != nullptr && to_int(broadcast->root) != rank) continue;
    if (group_->flag(Rank{rank}).exposure == Exposure::kSlots) return false;
  }
  return true;
}

// publish() has copied in and met.
Status SharedCollectives::run_alone(const Call& call, const SharedLayout& layout) {
  const Elements all{0, layout.count};
  if (fits_flag(layout))
    show(layout, all, [&](Rank rank) { return group_->flag(rank).payload.data(); });
  else
    show(layout, all, [&, chunk = chunks_++](Rank rank) { return slot(rank, chunk); });
  return process(call, layout, all);
}

Status SharedCollectives::run_in_place(const Call& call, const SharedLayout& layout) {
  show_in_place(layout);
  SharedAccess access(*group_);
  MUSTER_TRY(access.open());
  if (std::holds_alternative<AllReduce>(call.op))
    reduce_slice(layout, {0, layout.count});
  else
    MUSTER_TRY(process(call, layout, {0, layout.count}));
  MUSTER_TRY(access.close());
  return group_->meet(call.deadline);  // nobody reads my tensor any more
}

Status SharedCollectives::run_chunks(const Call& call, const SharedLayout& layout) {
  const std::int64_t length = chunk_of(layout);
  for (std::int64_t begin = 0; begin < layout.count; begin += length, ++chunks_) {
    const Elements chunk{begin, std::min(begin + length, layout.count)};
    if (std::holds_alternative<AllReduce>(call.op)) {
      MUSTER_TRY(share_slices(call, layout, chunk));
      continue;
    }
    copy_in(layout, slot(group_->group().rank, chunks_), chunk, chunk);
    MUSTER_TRY(group_->meet(call.deadline));
    show(layout, chunk, [&](Rank rank) { return slot(rank, chunks_); });
    MUSTER_TRY(process(call, layout, chunk));
  }
  return ok();
}

// My slice of the sum goes into my tensor and everybody's slot, and out of mine come the others'.
// Nobody else looks at my rows of my slice, so they are summed where they are.
Status SharedCollectives::share_slices(const Call& call, const SharedLayout& layout,
                                       Elements chunk) {
  std::byte* own = slot(group_->group().rank, chunks_);
  const Elements mine = slice_of_mine(chunk, layout.width);
  const std::array others{Elements{chunk.begin, mine.begin}, Elements{mine.end, chunk.end}};
  for (const Elements& theirs : others) copy_in(layout, own, chunk, theirs);
  MUSTER_TRY(group_->meet(call.deadline));
  show(layout, chunk, [&](Rank rank) { return slot(rank, chunks_); });
  reduce_slice(layout, chunk);
  MUSTER_TRY(group_->meet(call.deadline));
  for (const Elements& theirs : others)
    copy_bytes(layout.out(theirs.begin), own + layout.bytes(theirs.begin - chunk.begin),
               layout.bytes(theirs.count()));
  return ok();
}

// My slice of `part` into everybody's first row.
void SharedCollectives::reduce_slice(const SharedLayout& layout, Elements part) {
  places_.clear();
  for (std::size_t rank = 0; rank < windows_.size(); ++rank)
    places_.push_back({windows_.at(rank, 0, part.begin), part.begin});
  reduce_part(layout, slice_of_mine(part, layout.width), places_);
}

std::byte* SharedCollectives::slot(Rank rank, std::uint64_t chunk) const noexcept {
  return group_->control(rank).slots.data() + (chunk % 2) * kSlotBytes;
}

// What lies in `some` of my rows of `part` goes to where these begin at `to`.
void SharedCollectives::copy_in(const SharedLayout& layout, std::byte* to, Elements part,
                                Elements some) const {
  if (!layout.exposes) return;
  for (std::int32_t row = 0; row < layout.rows; ++row)
    copy_bytes(to + layout.bytes(row * part.count() + some.begin - part.begin),
               layout.exposed.data() + layout.bytes(row * layout.count + some.begin),
               layout.bytes(some.count()));
}

// The others' rows of `part` are where `start` says; mine are where they were.
template <class Start>
void SharedCollectives::show(const SharedLayout& layout, Elements part, const Start& start) {
  for (std::int32_t rank = 0; rank < group_->group().size; ++rank)
    windows_.set(Rank{rank}, start(Rank{rank}), part.count(), part.begin);
  if (layout.exposes) windows_.set(group_->group().rank, layout.exposed.data(), layout.count, 0);
}

// All rows are where their ranks have exposed them; mine where it is.
void SharedCollectives::show_in_place(const SharedLayout& layout) {
  const Group& group = group_->group();
  for (std::int32_t rank = 0; rank < group.size; ++rank) {
    const Flag& flag = group_->flag(Rank{rank});
    if (flag.exposure == Exposure::kProcess)
      windows_.set_apart(Rank{rank}, std::bit_cast<std::byte*>(flag.at), layout.count);
    else
      windows_.set(Rank{rank}, group_->memory(Rank{rank}) + flag.at, layout.count, 0);
  }
  if (layout.exposes) windows_.set(group.rank, layout.exposed.data(), layout.count, 0);
}

Status SharedCollectives::take(const Call& call, const SharedLayout& layout, Way way,
                               Elements part) const {
  const auto rank = static_cast<std::size_t>(way.rank);
  std::byte* to = layout.out(way.out_row * layout.count + part.begin);
  const std::byte* from = windows_.at(rank, way.row, part.begin);
  const std::size_t bytes = layout.bytes(part.count());
  if (!windows_.is_mapped(rank)) return read(Rank{way.rank}, from, {to, bytes}, call.deadline);
  copy_bytes(to, from, bytes);
  return ok();
}

Status SharedCollectives::read(Rank rank, const std::byte* from, std::span<std::byte> to,
                               Deadline deadline) const {
  for (std::size_t at = 0; at < to.size(); at += kReadBytes) {
    if (auto stopped = group_->given_up()) return *stopped;
    const auto piece = to.subspan(at, std::min(kReadBytes, to.size() - at));
    if (const Status got = group_->process(rank).read(from + at, piece); !got)
      return group_->why_unread(rank, got.error(), deadline);
  }
  return ok();
}

// From whom I take next: all begin with somebody else, so that no one's pages are wanted by all at
// once.
std::int32_t SharedCollectives::in_turn(std::int32_t place) const noexcept {
  const Group& group = group_->group();
  return (to_int(group.rank) + place) % group.size;
}

// What I get of `part`.
Status SharedCollectives::process(const Call& call, const SharedLayout& layout, Elements part) {
  const Group& group = group_->group();
  if (const auto* broadcast = std::get_if<Broadcast>(&layout.op)) {
    if (layout.exposes) return ok();
    return take(call, layout, {to_int(broadcast->root), 0, 0}, part);
  }
  if (layout.shards != nullptr) return process_shards(call, layout, part);
  const bool gathers = std::holds_alternative<AllGather>(layout.op);
  if (gathers || std::holds_alternative<AllToAll>(layout.op)) {
    for (std::int32_t place = 0; place < group.size; ++place) {
      const std::int32_t rank = in_turn(place);
      MUSTER_TRY(take(call, layout, {rank, gathers ? 0 : to_int(group.rank), rank}, part));
    }
    return ok();
  }
  places_ = {Place{layout.out(part.begin - layout.first), part.begin}};
  reduce_part(layout, part, places_);
  return ok();
}

// Of `part`, my own shard is summed; or the others' shards are copied from where they lie.
Status SharedCollectives::process_shards(const Call& call, const SharedLayout& layout,
                                         Elements part) {
  const auto common = [&](std::int32_t rank) {
    const std::int64_t begin = layout.shards->begin_of(Rank{rank});
    const std::int64_t end = begin + layout.shards->count_of(Rank{rank});
    return Elements{std::max(part.begin, begin), std::min(part.end, end)};
  };
  const Group& group = group_->group();
  if (std::holds_alternative<ReduceScatter>(layout.op)) {
    const Elements mine = common(to_int(group.rank));
    if (mine.count() <= 0) return ok();
    places_ = {Place{layout.out(mine.begin - layout.first), mine.begin}};
    reduce_part(layout, mine, places_);
    return ok();
  }
  for (std::int32_t place = 1; place < group.size; ++place) {
    const std::int32_t rank = in_turn(place);
    if (const Elements theirs = common(rank); theirs.count() > 0)
      MUSTER_TRY(take(call, layout, {rank, 0, 0}, theirs));
  }
  return ok();
}

// Cut at cache lines, so that no two ranks write the same one.
Elements SharedCollectives::slice_of_mine(Elements part, std::size_t width) const {
  const Group& group = group_->group();
  const auto line = kLineBytes / static_cast<std::int64_t>(width);
  const std::int64_t lines = ceil_div(part.count(), line);
  const Slice slice = even_slice(Space::kOutput, lines, group.size, to_int(group.rank));
  return {std::min(part.begin + slice.begin * line, part.end),
          std::min(part.begin + (slice.begin + slice.count) * line, part.end)};
}

void SharedCollectives::reduce_part(const SharedLayout& layout, Elements part,
                                    const std::vector<Place>& places) {
  const auto tile = kTileBytes / static_cast<std::int64_t>(layout.width);
  tile_.resize(reduction_.rows.size() * kTileBytes);
  operands_.resize(reduction_.rows.size());
  const bool averages = layout.reduce == Reduce::kAvg;
  const bool at_once = places.size() > 1 && !averages;
  for (std::int64_t at = part.begin; at < part.end; at += tile) {
    const std::int64_t count = std::min(tile, part.end - at);
    for (std::size_t i = 0; i < operands_.size(); ++i)
      operands_[i] = windows_.at(reduction_.rows[i].first, reduction_.rows[i].second, at);
    const auto to = [&](const Place& place) {
      return place.start + layout.bytes(at - place.begin);
    };
    std::byte* first = to(places.front());
    combine(layout, count, {first, at_once ? to(places[1]) : nullptr});
    if (averages) divide(layout.dtype, first, count, group_->group().size);
    for (std::size_t i = at_once ? 2 : 1; i < places.size(); ++i)
      copy_bytes(to(places[i]), first, layout.bytes(count));
  }
}

// Adds up the operands along the sums, each where it lies, the partial results in tile_; the total
// goes to `to`, which may be the last two.
void SharedCollectives::combine(const SharedLayout& layout, std::int64_t count, Outputs to) {
  for (std::size_t i = 0; i < reduction_.sums.size(); ++i) {
    const auto [l, r] = reduction_.sums[i];
    const auto left = static_cast<std::size_t>(l);
    const bool last = i + 1 == reduction_.sums.size();
    const Outputs result = last ? to : Outputs{tile_.data() + left * layout.bytes(count)};
    reduce(layout.dtype, layout.reduce, result, operands_[left],
           operands_[static_cast<std::size_t>(r)], count);
    operands_[left] = result.one;
  }
  const std::byte* total = operands_[static_cast<std::size_t>(reduction_.total)];
  // The last sum brought it to both. Without one a rank has all of it, maybe where it is to go.
  if (!reduction_.sums.empty() && total == to.one) return;
  for (std::byte* place : {to.one, to.other})
    if (place != nullptr) copy_bytes(place, total, layout.bytes(count));
}

}  // namespace muster::comm
