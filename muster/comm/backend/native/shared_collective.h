#pragma once
// One collective among ranks that see each other's memory. Each rank exposes rows of elements, in
// place or chunk by chunk through its slots; all arithmetic reads them where they lie.
//
// Small: copy in, meet, everybody reduces all of it alone; no second meeting, since slots and flags
// alternate and nobody can be two meetings ahead. The tiniest are in the flags themselves.
// Large, in memory from allocate(): publish, meet, reduce my slice of all ranks' buffers straight
// into all of them, meet: two units of memory traffic, no copy in or out.
// Large elsewhere: the same through slots, chunk by chunk: copy in, meet, and in all-reduce copy
// out after a second meeting; there only what others reduce, my slice staying where it is. What is
// only moved, in large parts, is read out of the others' processes instead where all ranks may:
// publish the address, meet, read, meet.
//
// After a failure: run() returns at once, and others may still be at the caller's tensor if it is
// in memory from allocate(): they read it, and in an all-reduce each writes its slice there. Nobody
// begins to any more. SharedGroup::await_rest waits for those who have begun, and the engine calls
// it (drain) before the operation ends, so that the caller may change or free its tensors at once.
// Tensors elsewhere are written by their own rank alone, and read by others in the same way. What a
// failed all-reduce leaves in its tensor is undefined; inputs of other operations are as they were.
// One exception: a rank that stands still in the middle of its part (a process that was stopped)
// for longer than drain() waits may read and write there once it goes on. Its own operation ends in
// an error then.

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "muster/comm/backend/native/shared_group.h"
#include "muster/comm/backend/native/shared_layout.h"
#include "muster/comm/engine/engine.h"
#include "muster/comm/reduce.h"

namespace muster::comm {

class SharedCollectives {  // one thread at a time
 public:
  explicit SharedCollectives(std::shared_ptr<SharedGroup> group) : group_(std::move(group)) {}

  Status run(const Call& call);

 private:
  std::int64_t alone_bytes() const noexcept;
  Status publish(const Call& call, const SharedLayout& layout, bool alone);
  void expose(const SharedLayout& layout, Flag& flag) const;
  Status check_signatures(const Call& call, std::uint64_t mine) const;
  bool all_exposed(const SharedLayout& layout) const;

  Status run_alone(const Call& call, const SharedLayout& layout);
  Status run_in_place(const Call& call, const SharedLayout& layout);
  Status run_chunks(const Call& call, const SharedLayout& layout);
  Status share_slices(const Call& call, const SharedLayout& layout, Elements chunk);
  void reduce_slice(const SharedLayout& layout, Elements part);

  std::byte* slot(Rank rank, std::uint64_t chunk) const noexcept;
  void copy_in(const SharedLayout& layout, std::byte* to, Elements part, Elements some) const;
  void bring_shard(const SharedLayout& layout) const;
  template <class Start>
  void show(const SharedLayout& layout, Elements part, const Start& start);
  void show_in_place(const SharedLayout& layout);
  Status process(const Call& call, const SharedLayout& layout, Elements part);
  Status process_shards(const Call& call, const SharedLayout& layout, Elements part);
  std::int32_t in_turn(std::int32_t place) const noexcept;
  // From a row of a rank to one of the output.
  struct Way {
    std::int32_t rank;
    std::int64_t row;
    std::int64_t out_row;
  };
  Status take(const Call& call, const SharedLayout& layout, Way way, Elements part) const;
  Status read(Rank rank, const std::byte* from, std::span<std::byte> to, Deadline deadline) const;
  Elements slice_of_mine(Elements part, std::size_t width) const;

  // Reduces `part` of all ranks' rows tile by tile. Element i of the result goes to place[i -
  // begin] of each place, which may be where a row lies that it comes from, but not overlap one
  // otherwise.
  struct Place {
    std::byte* start;
    std::int64_t begin;
  };
  void reduce_part(const SharedLayout& layout, Elements part, const std::vector<Place>& places);
  void combine(const SharedLayout& layout, std::int64_t count, Outputs to);

  const std::shared_ptr<SharedGroup> group_;
  std::uint64_t chunks_ = 0;  // of all collectives; its parity chooses the slot
  // Kept between collectives, so that nothing is allocated again.
  SharedWindows windows_;
  SharedReduction reduction_;
  std::vector<const std::byte*> operands_;
  std::vector<Place> places_;
  std::vector<std::byte> tile_;  // partial results
};

}  // namespace muster::comm
