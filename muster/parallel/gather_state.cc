#include "muster/parallel/gather_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "muster/base/slice_list.h"

namespace muster::parallel {
namespace {

constexpr std::uint32_t kStateTag = 0x57A7E;

using Held = TensorSlice;  // what a rank says of a slice: without its bytes

bool is_whole(const Held& held) { return held.tensor.shape == held.global_shape; }

std::size_t bytes_of(const Held& held, const Shape& shape) {
  return static_cast<std::size_t>(element_count(shape)) * size_of(held.tensor.dtype);
}

// What every rank holds, by rank.
Result<std::vector<std::vector<Held>>> exchange_lists(comm::Communicator& communicator,
                                                      const std::vector<TensorSlice>& own,
                                                      const comm::OpOptions& options) {
  std::vector<std::uint8_t> mine = encode_slice_list(own);
  const auto ranks = static_cast<std::size_t>(communicator.group().size);
  std::vector<std::int64_t> size{static_cast<std::int64_t>(mine.size())}, sizes(ranks);
  MUSTER_TRY(communicator
                 .submit(comm::AllGather{.output = view_of(std::span(sizes)),
                                         .input = view_of(std::span(size))},
                         options)
                 .wait());
  const auto longest = static_cast<std::size_t>(*std::ranges::max_element(sizes));
  mine.resize(longest);
  std::vector<std::uint8_t> all(longest * ranks);
  MUSTER_TRY(communicator
                 .submit(comm::AllGather{.output = view_of(std::span(all)),
                                         .input = view_of(std::span(mine))},
                         options)
                 .wait());
  std::vector<std::vector<Held>> lists;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto text = std::span(all).subspan(rank * longest, static_cast<std::size_t>(sizes[rank]));
    MUSTER_ASSIGN(lists.emplace_back(), decode_slice_list(std::as_bytes(text)));
  }
  return lists;
}

// Which slices of which rank are taken: by rank, indices into its list. `to`'s own come first.
std::vector<std::vector<std::size_t>> choose(const std::vector<std::vector<Held>>& lists, Rank to) {
  std::vector<std::vector<std::size_t>> chosen(lists.size());
  std::set<std::pair<std::string, Shape>> taken;
  const auto take = [&](std::size_t rank) {
    for (std::size_t i = 0; i < lists[rank].size(); ++i)
      if (taken.emplace(lists[rank][i].name, lists[rank][i].offset).second)
        chosen[rank].push_back(i);
  };
  const auto first = static_cast<std::size_t>(to_int(to));
  take(first);
  for (std::size_t rank = 0; rank < lists.size(); ++rank)
    if (rank != first) take(rank);
  return chosen;
}

// Puts a slice's bytes to where they belong in the whole.
void spread(std::span<const std::byte> part, const ByteRuns& runs, std::span<std::byte> whole) {
  for (std::uint64_t run = 0; run < runs.runs; ++run)
    std::memcpy(whole.data() + runs.first + run * runs.pitch, part.data() + run * runs.length,
                runs.length);
}

// The rank that gets the tensors: lays them out, then receives into them.
class Collection {
 public:
  Collection(const std::vector<TensorSlice>& own, std::vector<std::vector<std::byte>>& memory)
      : own_(own), memory_(memory) {}

  // `mine`: the index of this rank's own slice, where it is one of those.
  void make_place(const Held& held, std::optional<std::size_t> mine) {
    if (!index_.emplace(held.name, whole_.size()).second) return;
    const std::size_t bytes = bytes_of(held, held.global_shape);
    missing_.push_back(bytes);
    const bool stays = mine && is_whole(held);
    const std::span<std::byte> place =
        stays ? own_[*mine].tensor.bytes : std::span<std::byte>(memory_.emplace_back(bytes));
    whole_.push_back({held.name,
                      {held.tensor.dtype, held.global_shape, place},
                      held.global_shape,
                      Shape(held.global_shape.size())});
  }

  void keep(const Held& held, std::size_t mine) {
    const std::span<std::byte> place = take(held);
    if (!is_whole(held)) spread(own_[mine].tensor.bytes, runs_of(own_[mine]), place);
  }

  // Into its place where it is one run of bytes there, else by way of a buffer.
  void receive(comm::Communicator& communicator, const Held& held, Rank from,
               const comm::OpOptions& options) {
    const std::span<std::byte> place = take(held);
    const std::size_t bytes = bytes_of(held, held.tensor.shape);
    TensorSlice slice{held.name,
                      {held.tensor.dtype, held.tensor.shape, place.first(bytes)},
                      held.global_shape,
                      held.offset};
    const ByteRuns runs = runs_of(slice);
    if (runs.runs <= 1) {
      slice.tensor.bytes = place.subspan(runs.first, runs.length);
    } else {
      slice.tensor.bytes = buffers_.emplace_back(bytes);
      detours_.push_back({slice.tensor.bytes, runs, place});
    }
    works_.push_back(communicator.submit(comm::Recv{slice.tensor, from, kStateTag}, options));
  }

  Result<std::vector<TensorSlice>> finish() {
    MUSTER_TRY(comm::wait_for_all(works_));
    for (const auto& [part, runs, place] : detours_) spread(part, runs, place);
    for (const auto& [name, at] : index_)
      if (missing_[at] != 0)
        return fail(
            ErrorCode::kInternal,
            fmt::format("[parallel/gather] {} bytes of `{}` are nobody's", missing_[at], name));
    return std::move(whole_);
  }

 private:
  struct Detour {
    std::span<std::byte> part;
    ByteRuns runs;
    std::span<std::byte> place;
  };

  std::span<std::byte> take(const Held& held) {
    const std::size_t at = index_.at(held.name);
    missing_[at] -= bytes_of(held, held.tensor.shape);
    return whole_[at].tensor.bytes;
  }

  const std::vector<TensorSlice>& own_;
  std::vector<std::vector<std::byte>>& memory_;
  std::vector<TensorSlice> whole_;
  std::map<std::string, std::size_t> index_;  // into whole_
  std::vector<std::size_t> missing_;          // bytes, by tensor
  std::vector<std::vector<std::byte>> buffers_;
  std::vector<Detour> detours_;
  std::vector<comm::Work> works_;
};

Status send(comm::Communicator& communicator, const std::vector<TensorSlice>& own,
            const std::vector<std::size_t>& chosen, Rank to, const comm::OpOptions& options) {
  std::vector<comm::Work> works;
  works.reserve(chosen.size());
  for (const std::size_t i : chosen)
    works.push_back(communicator.submit(comm::Send{own[i].tensor, to, kStateTag}, options));
  return comm::wait_for_all(works);
}

}  // namespace

Result<std::vector<TensorSlice>> GatheredState::gather(comm::Communicator& communicator,
                                                       const std::vector<TensorSlice>& own, Rank to,
                                                       const comm::OpOptions& options) {
  forget();
  MUSTER_ASSIGN(const auto lists, exchange_lists(communicator, own, options));
  const auto chosen = choose(lists, to);
  const auto me = static_cast<std::size_t>(to_int(communicator.group().rank));
  if (communicator.group().rank != to) {
    MUSTER_TRY(send(communicator, own, chosen[me], to, options));
    return std::vector<TensorSlice>();
  }
  Collection collection(own, memory_);
  for (std::size_t rank = 0; rank < lists.size(); ++rank)
    for (const std::size_t i : chosen[rank])
      collection.make_place(lists[rank][i], rank == me ? std::optional(i) : std::nullopt);
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    for (const std::size_t i : chosen[rank]) {
      if (rank == me)
        collection.keep(lists[rank][i], i);
      else
        collection.receive(communicator, lists[rank][i], Rank{static_cast<std::int32_t>(rank)},
                           options);
    }
  }
  return collection.finish();
}

}  // namespace muster::parallel
