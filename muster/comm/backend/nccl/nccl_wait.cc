#include "muster/comm/backend/nccl/nccl_wait.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace muster::comm {
namespace {

// Asked again at once, so that the answer costs no switch of threads.
constexpr Duration kAtOnce = std::chrono::microseconds(100);
constexpr Duration kLongestNap = std::chrono::milliseconds(1);
// Of the time waited so far: so much later at most is seen what happens.
constexpr int kNapsAnEighth = 8;
// Whoever waits longer than a collective usually takes tells what it calls.
constexpr Duration kWonder = std::chrono::milliseconds(50);
// Who leaves after a collective has done its part of it, which then ends here too, this soon.
constexpr Duration kOthersEnd = std::chrono::seconds(1);

class Waiting {
 public:
  Waiting(NcclGroup& nccl, const NcclWait& wait)
      : nccl_(nccl), wait_(wait), clock_(wait.transport.inbox().clock()), began_(clock_.now()) {}

  Status over() {
    for (;;) {
      const std::uint32_t seen = wait_.transport.inbox().activity();
      const auto done = nccl_.poll();
      if (!done) return blame(done.error());
      if (*done) return ok();
      MUSTER_TRY(look());
      nap(seen);
    }
  }

 private:
  Status look() {
    if (const auto told = wait_.transport.inbox().failure()) return *told;
    const TimePoint now = clock_.now();
    notice_lost(now);
    if (lost_ && now >= lost_at_ + kOthersEnd) return *lost_;
    if (wait_.deadline.at() <= now) return fail(ErrorCode::kTimeout, "");
    if (auto why = wait_.ends ? wait_.ends() : std::nullopt) return std::move(*why);
    if (wait_.in_collective && now - began_ >= kWonder && !std::exchange(announced_, true))
      wait_.transport.announce();
    return ok();
  }

  void notice_lost(TimePoint now) {
    for (std::int32_t rank = 0; rank < wait_.group.size && !lost_; ++rank) {
      if (Rank{rank} == wait_.group.rank) continue;
      lost_ = wait_.transport.inbox().lost(Rank{rank});
      lost_at_ = now;
    }
  }

  // NCCL says that a connection broke; the transport hears soon whose.
  Error blame(Error why) {
    const TimePoint until = std::min(wait_.deadline.at(), clock_.now() + kOthersEnd);
    for (TimePoint now = clock_.now(); wait_.group.size > 1 && now < until; now = clock_.now()) {
      const std::uint32_t seen = wait_.transport.inbox().activity();
      if (const auto told = wait_.transport.inbox().failure()) return *told;
      notice_lost(now);
      if (lost_) return *lost_;
      wait_.transport.inbox().await_activity(seen, until);
    }
    return why;
  }

  void nap(std::uint32_t seen) {
    const TimePoint now = clock_.now();
    if (now - began_ < kAtOnce) return std::this_thread::yield();
    const Duration longest = std::min<Duration>((now - began_) / kNapsAnEighth, kLongestNap);
    wait_.transport.inbox().await_activity(seen, std::min(wait_.deadline.at(), now + longest));
  }

  NcclGroup& nccl_;
  const NcclWait& wait_;
  Clock& clock_;
  const TimePoint began_;
  bool announced_ = false;
  std::optional<Error> lost_;  // the first rank to leave
  TimePoint lost_at_{};
};

}  // namespace

Status await(NcclGroup& nccl, const NcclWait& wait) { return Waiting(nccl, wait).over(); }

}  // namespace muster::comm
