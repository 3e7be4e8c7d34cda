#include "muster/comm/backend/native/shared_engine.h"

#include <algorithm>

#include "muster/comm/backend/native/shared_collective.h"
#include "muster/comm/backend/native/shared_messages.h"
#include "muster/comm/engine/errors.h"

namespace muster::comm {
namespace {

// Whoever dies rings no bell: look again this often.
constexpr Duration kLook = std::chrono::milliseconds(20);
// How long a peer may be at a tensor here after a failure: the longest part takes less, and one
// that stands still in the middle of its own is not waited for.
constexpr Duration kAtTensors = std::chrono::seconds(1);

class SharedEngine final : public Engine {
 public:
  explicit SharedEngine(std::shared_ptr<SharedGroup> group)
      : group_(std::move(group)), collectives_(group_), messages_(group_) {}

  Status run(const Call& call) override {
    Status outcome = collectives_.run(call);
    if (outcome || outcome.error().code != ErrorCode::kTimeout || !outcome.error().message.empty())
      return outcome;
    auto missing = group_->missing();
    if (missing.empty()) missing.push_back(outcome.error().peer);
    return timeout_error(call.op, call.options, group_->group(), missing);
  }

  std::optional<Awaited> awaited() const override {
    return Awaited{Awaited::Over::kMemory, group_->awaited()};
  }

  Result<bool> try_send(const Send& send, Deadline) override { return messages_.try_send(send); }
  Result<bool> try_recv(const Recv& recv) override { return messages_.try_recv(recv); }

  bool has_part(const Recv&) const override { return false; }  // taken whole

  std::uint32_t activity() const noexcept override { return group_->mine().doorbell.load(); }
  void await_activity(std::uint32_t seen, TimePoint until) override {
    const Duration left = until - group_->clock().now();
    if (left.count() > 0) wait_on(group_->mine().doorbell, seen, std::min(left, kLook));
  }
  void wake() noexcept override { group_->ring(group_->group().rank); }

  void fail(const Error& why) noexcept override { group_->fail(why, true); }
  void stop(const Error& why) noexcept override { group_->fail(why, false); }
  void drain() noexcept override {
    group_->await_rest(Deadline::after(group_->clock(), kAtTensors));
  }

  Result<Buffer> allocate(std::size_t bytes) override {
    return SharedGroup::allocate(group_, bytes);
  }

  Result<std::unique_ptr<Engine>> split(Group part, std::int32_t, const Exchange& exchange,
                                        Deadline deadline) override {
    MUSTER_ASSIGN(auto group, SharedGroup::create(part, group_->heap_bytes(), group_->clock(),
                                                  exchange, deadline, group_->wished_reads_from()));
    return create_shared_engine(std::move(group));
  }

 private:
  const std::shared_ptr<SharedGroup> group_;
  SharedCollectives collectives_;
  SharedMessages messages_;
};

}  // namespace

std::unique_ptr<Engine> create_shared_engine(std::shared_ptr<SharedGroup> group) {
  return std::make_unique<SharedEngine>(std::move(group));
}

}  // namespace muster::comm
