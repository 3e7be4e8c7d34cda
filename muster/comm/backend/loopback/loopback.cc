#include "muster/comm/backend/loopback/loopback.h"

#include <atomic>
#include <functional>
#include <map>
#include <mutex>

#include "muster/comm/engine/calls.h"
#include "muster/comm/engine/engine_communicator.h"
#include "muster/comm/engine/errors.h"
#include "muster/comm/engine/transport.h"

namespace muster::comm {
namespace {

// What the ranks of one group share. Thread-safe.
class Hub {
 public:
  Hub(std::int32_t size, Generation generation, Clock& clock)
      : clock_(clock), entered_(static_cast<std::size_t>(size)) {
    for (std::int32_t rank = 0; rank < size; ++rank) {
      inboxes_.push_back(std::make_unique<Inbox>(size, clock));
      calls_.push_back(std::make_unique<Calls>(Group{Rank{rank}, size, generation}));
    }
  }

  Inbox& inbox(Rank rank) noexcept { return *inboxes_[static_cast<std::size_t>(to_int(rank))]; }
  Calls& calls(Rank rank) noexcept { return *calls_[static_cast<std::size_t>(to_int(rank))]; }

  void enter(Rank rank, std::uint64_t sequence) noexcept {
    entered_[static_cast<std::size_t>(to_int(rank))] = sequence;
  }

  std::vector<Rank> missing(std::uint64_t sequence) const {
    std::vector<Rank> ranks;
    for (std::size_t rank = 0; rank < entered_.size(); ++rank)
      if (entered_[rank] < sequence) ranks.push_back(Rank{static_cast<std::int32_t>(rank)});
    return ranks;
  }

  void for_peers(Rank me, const std::function<void(Rank, Inbox&)>& call) {
    for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(inboxes_.size()); ++rank)
      if (Rank{rank} != me) call(Rank{rank}, inbox(Rank{rank}));
  }

  // The hub of the `count`-th split's part `color`, the same object for each rank of `group`.
  std::shared_ptr<Hub> part(std::uint64_t count, std::int32_t color, const Group& group) {
    const std::lock_guard lock(mutex_);
    const auto key = std::pair(count, color);
    auto& [hub, taken] = parts_[key];
    if (!hub) hub = std::make_shared<Hub>(group.size, group.generation, clock_);
    auto mine = hub;
    if (++taken == group.size) parts_.erase(key);
    return mine;
  }

 private:
  struct Part {
    std::shared_ptr<Hub> hub;
    std::int32_t taken = 0;
  };
  Clock& clock_;
  std::vector<std::unique_ptr<Inbox>> inboxes_;  // by rank, as the two below
  std::vector<std::unique_ptr<Calls>> calls_;
  std::vector<std::atomic<std::uint64_t>> entered_;  // each rank's last collective
  std::mutex mutex_;
  std::map<std::pair<std::uint64_t, std::int32_t>, Part> parts_;  // guarded by mutex_
};

class LoopbackTransport final : public Transport {
 public:
  LoopbackTransport(Group group, std::shared_ptr<Hub> hub, Topology topology)
      : group_(group), hub_(std::move(hub)), topology_(std::move(topology)) {}

  const Topology& topology() const noexcept override { return topology_; }
  Inbox& inbox() noexcept override { return hub_->inbox(group_.rank); }

  Status post(Rank to, MessageId id, std::span<const std::byte> bytes) override {
    if (is_first(id)) tell(to);
    hub_->inbox(to).deliver(group_.rank, id, {bytes.begin(), bytes.end()});
    return ok();
  }
  // Delivered as copies.
  Status settle(Deadline) override { return ok(); }
  Status settle_messages(Rank, Deadline) override { return ok(); }

  Status enter(std::uint64_t sequence, const Signature& mine) override {
    hub_->enter(group_.rank, sequence);
    sequence_ = static_cast<std::uint32_t>(sequence);
    signature_ = mine;
    return hub_->calls(group_.rank).enter(sequence, mine);
  }
  void announce() override {
    hub_->for_peers(group_.rank, [&](Rank peer, Inbox&) { tell(peer); });
  }
  std::vector<Rank> missing(std::uint64_t sequence) override { return hub_->missing(sequence); }

  void fail(const Error& why) noexcept override {
    inbox().fail(why);
    hub_->for_peers(group_.rank, [&](Rank, Inbox& peer) { peer.fail(told_by(group_.rank, why)); });
  }

  void stop(const Error& why) noexcept override {
    inbox().fail(why);
    hub_->for_peers(group_.rank, [&](Rank, Inbox& peer) {
      peer.close(group_.rank, muster::fail(ErrorCode::kPeerLost, why.message, group_.rank));
    });
  }

  Result<std::unique_ptr<Transport>> split(Group part, std::int32_t color, const Exchange&,
                                           Deadline) override {
    return std::make_unique<LoopbackTransport>(part, hub_->part(++splits_, color, part),
                                               Topology::one_host(part.size));
  }

 private:
  // What I call. All hear of a difference, `to` first.
  void tell(Rank to) {
    const Status same = hub_->calls(to).heard(group_.rank, sequence_, signature_);
    if (same) return;
    hub_->inbox(to).fail(same.error());
    hub_->for_peers(to, [&](Rank, Inbox& peer) { peer.fail(told_by(to, same.error())); });
  }

  const Group group_;
  const std::shared_ptr<Hub> hub_;
  const Topology topology_;
  std::uint32_t sequence_ = 0;  // of the present collective
  Signature signature_;
  std::uint64_t splits_ = 0;
};

}  // namespace

std::vector<std::shared_ptr<Communicator>> create_loopback(std::int32_t size, Generation generation,
                                                           Clock& clock) {
  return create_loopback(Topology::one_host(size), default_costs(Wire::kMemory), generation, clock);
}

std::vector<std::shared_ptr<Communicator>> create_loopback(const Topology& topology,
                                                           const CostTable& costs,
                                                           Generation generation, Clock& clock) {
  const std::int32_t size = topology.size();
  const auto hub = std::make_shared<Hub>(size, generation, clock);
  std::vector<std::shared_ptr<Communicator>> communicators;
  for (std::int32_t rank = 0; rank < size; ++rank) {
    const Group group{Rank{rank}, size, generation};
    auto transport = std::make_unique<LoopbackTransport>(group, hub, topology);
    communicators.push_back(create_communicator(
        group, create_schedule_engine(group, std::move(transport), costs), clock));
  }
  return communicators;
}

}  // namespace muster::comm
