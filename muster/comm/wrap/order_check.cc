#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "muster/comm/wrap/forward.h"
#include "muster/comm/wrap/wrappers.h"

namespace muster::comm {
namespace {

// What a rank is about to call, as text that can be compared and shown.
using Announcement = std::array<std::uint8_t, 128>;

Announcement announce(const Op& op) {
  Announcement announcement{};
  const std::string text = describe_for_all(op);
  std::memcpy(announcement.data(), text.data(), std::min(text.size(), announcement.size() - 1));
  return announcement;
}

std::string_view shown(const Announcement& announcement) {
  return reinterpret_cast<const char*>(announcement.data());
}

// One operation on its way: announced, compared, then submitted.
struct Pending {
  Op op;
  OpOptions options;
  std::shared_ptr<WorkState> state = std::make_shared<WorkState>();
  Announcement mine{};
  std::vector<Announcement> all;
};

Status compare(const Pending& pending, const Group& group) {
  for (std::size_t rank = 1; rank < pending.all.size(); ++rank) {
    if (pending.all[rank] == pending.all[0]) continue;
    return fail(
        ErrorCode::kInvalid,
        fmt::format("[comm/order_check] rank 0 calls {}, rank {} calls {} in generation {}: "
                    "all ranks must call the same operations in the same order",
                    shown(pending.all[0]), rank, shown(pending.all[rank]),
                    to_int(group.generation)),
        Rank{static_cast<std::int32_t>(rank)});
  }
  return ok();
}

// Announcements go over a group of their own, so that they stay in order whatever the operations
// do. They end in order on one thread, and so the operations are submitted in order.
class OrderCheckingCommunicator final : public Forward {
 public:
  OrderCheckingCommunicator(const CommunicatorPtr& inner, CommunicatorPtr announcements)
      : Forward(inner), shared_(inner), announcements_(std::move(announcements)) {}

  Work submit(Op op, const OpOptions& options) override {
    if (std::holds_alternative<Send>(op) || std::holds_alternative<Recv>(op))
      return inner().submit(std::move(op), options);  // they pair up; nobody else takes part
    auto pending = std::make_shared<Pending>();
    pending->mine = announce(op);
    pending->all.resize(static_cast<std::size_t>(group().size));
    pending->op = std::move(op);
    pending->options = options;
    const auto size = static_cast<std::int64_t>(pending->all.size());
    const auto length = static_cast<std::int64_t>(pending->mine.size());
    const AllGather gather{
        {DType::kU8, {size, length}, std::as_writable_bytes(std::span(pending->all))},
        {DType::kU8, {length}, std::as_writable_bytes(std::span(pending->mine))}};
    announcements_->submit(gather, options)
        .on_done([pending, inner = std::weak_ptr(shared_)](const Status& announced) {
          run(pending, inner.lock(), announced);
        });
    return Work(pending->state);
  }

  void abort(Error why) noexcept override {
    announcements_->abort(why);
    inner().abort(std::move(why));
  }

 protected:
  Result<CommunicatorPtr> wrap(CommunicatorPtr part) override { return with_order_check(part); }

 private:
  static void run(const std::shared_ptr<Pending>& pending, const CommunicatorPtr& inner,
                  const Status& announced) {
    if (!announced) return pending->state->finish(announced);
    if (!inner)
      return pending->state->finish(fail(ErrorCode::kCancelled, "[comm] the communicator is gone"));
    if (auto same = compare(*pending, inner->group()); !same)
      return pending->state->finish(std::move(same));
    inner->submit(std::move(pending->op), pending->options)
        .on_done([pending](const Status& outcome) { pending->state->finish(outcome); });
  }

  const CommunicatorPtr shared_;
  const CommunicatorPtr announcements_;
};

}  // namespace

Result<CommunicatorPtr> with_order_check(const CommunicatorPtr& inner) {
  MUSTER_ASSIGN(auto announcements, inner->split(0, to_int(inner->group().rank)));
  return std::make_shared<OrderCheckingCommunicator>(inner, std::move(announcements));
}

}  // namespace muster::comm
