#pragma once
// One collective among ranks that see each other's memory. Each rank exposes rows of elements, in
// place or chunk by chunk through its slots; all arithmetic reads them where they lie.
//
// Large, in memory from allocate(): publish, meet, reduce my slice of all ranks' buffers straight
// into all of them, meet: two units of memory traffic, no copy in or out.
// Small: copy in, meet, everybody reduces all slots alone; no second meeting, since slots and lines
// alternate and nobody can be two collectives ahead.

#include <memory>
#include <vector>

#include "muster/comm/backend/native/shared_group.h"
#include "muster/comm/engine/engine.h"

namespace muster::comm {

class SharedCollectives {  // one thread
 public:
  explicit SharedCollectives(std::shared_ptr<SharedGroup> group) : group_(std::move(group)) {}

  Status run(const Call& call);

 private:
  struct Layout;
  struct Reduction;
  class Windows;
  struct Elements {  // [begin, end) of a row
    std::int64_t begin;
    std::int64_t end;
  };

  Status publish(const Call& call, const Layout& layout, bool chunked);
  Status check_signatures(const Call& call, std::uint64_t mine) const;
  bool all_exposed(const Layout& layout) const;
  Status run_in_place(const Call& call, const Layout& layout);
  Status run_chunks(const Call& call, const Layout& layout, std::int64_t chunk, bool alone);
  void copy_in(const Layout& layout, std::int64_t begin, std::int64_t end);
  void bring_shard(const Op& op, const Layout& layout) const;
  void process(const Call& call, const Layout& layout, const Windows& windows, Elements part,
               bool alone);
  void process_shards(const Call& call, const Layout& layout, const Windows& windows,
                      Elements part);
  Elements my_share(Elements part, std::size_t width) const;
  static Reduction reduction_of(const Layout& layout, const Group& group);
  void reduce_part(const Layout& layout, const Windows& windows, Elements part, bool share);

  const std::shared_ptr<SharedGroup> group_;
  std::uint64_t sequence_ = 0;
  std::uint64_t chunks_ = 0;     // of all collectives; its parity chooses the slot
  std::vector<std::byte> tile_;  // partial results
};

}  // namespace muster::comm
