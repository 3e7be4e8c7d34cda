#pragma once
// Who a generation consists of, as all its members are told. The list is the same for each of n, so
// it is kept, encoded and, in a process with several members, read once and not n times. Whoever
// has been told of one generation is told of the next what is new in it. To tell all of all of the
// first remains n² bytes, two or three for each worker of a host, and three for its door's port.

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "muster/base/ids.h"
#include "muster/base/result.h"
#include "muster/net/message.h"

namespace muster::cluster {

// A worker: `worker` is its number in the launch, kept for life; its rank may change by generation.
struct WorkerInfo {
  std::int32_t worker = 0;
  std::string host;
  std::string boot_id;  // equal on two workers: they share memory
  std::int32_t pid = 0;
  std::string door;  // "host:port" where others try whether they reach it (door.h); empty: nowhere
  // It sees the run's folder, where the first rank writes checkpoints.
  bool can_lead = true;
  // With the state that the training begins with; else it gets the others', see Whole. The
  // coordinator takes it from whoever is not in the first generation.
  bool has_state = true;
  friend bool operator==(const WorkerInfo&, const WorkerInfo&) = default;
};
std::string describe(const WorkerInfo& info);  // "worker 3 (host node7, pid 4711)"

struct MemberInfo {
  Rank rank{0};
  WorkerInfo info;
  friend bool operator==(const MemberInfo&, const MemberInfo&) = default;
};

// By rank. An immutable value whose copies share one list; thread-safe.
class MemberList {
 public:
  MemberList() = default;
  explicit(false) MemberList(std::vector<MemberInfo> list);
  MemberList(std::initializer_list<MemberInfo> list) : MemberList(std::vector<MemberInfo>(list)) {}

  const std::vector<MemberInfo>& list() const noexcept;
  bool empty() const noexcept { return list().empty(); }
  std::size_t size() const noexcept { return list().size(); }
  auto begin() const noexcept { return list().begin(); }
  auto end() const noexcept { return list().end(); }
  const MemberInfo& operator[](std::size_t rank) const { return list()[rank]; }
  friend bool operator==(const MemberList& a, const MemberList& b) {
    return a.shared_ == b.shared_ || a.list() == b.list();
  }

  // As it travels: made once for all copies, and valid as long as the result is kept.
  std::shared_ptr<const net::Bytes> encoded() const;
  // Likewise, to who has read `before`: what is new, unless all takes fewer bytes. Made once for
  // all that have read the same copies.
  std::shared_ptr<const net::Bytes> encoded_after(const MemberList& before) const;

 private:
  struct Shared;
  std::shared_ptr<const Shared> shared_;  // none: empty
};

// `before`: the list that came before from the same sender. kCorrupt, kUnsupported: these bytes are
// no list, or none that follows that one.
Result<MemberList> decode_member_list(std::span<const std::byte> bytes,
                                      const MemberList& before = {});

// What several members of one process share: a list that one of them was told is not read again for
// the others. Thread-safe.
class MemberLists {
 public:
  Result<MemberList> read(std::span<const std::byte> bytes, const MemberList& before = {});

 private:
  std::mutex mutex_;
  net::Bytes last_;    // guarded by mutex_, as all below
  MemberList before_;  // of last_
  MemberList members_;
};

}  // namespace muster::cluster
