#include "muster/app/world/host.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "muster/cluster/coordinator.h"
#include "muster/cluster/culprit.h"

namespace muster::app {
namespace {

// What others say may show that the first to complain is not the one to blame.
constexpr Duration kSettle = std::chrono::milliseconds(150);
constexpr Duration kPatience = std::chrono::seconds(5);  // until it is said who is waited for

std::vector<cluster::Evidence> nothing_known_of(std::int32_t ranks) {
  std::vector<cluster::Evidence> evidence(static_cast<std::size_t>(ranks));
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    auto& of = evidence[static_cast<std::size_t>(rank)];
    of.rank = Rank{rank};
    of.process = rank + 1;
  }
  return evidence;
}

class HostOfAll final : public Host {
 public:
  HostOfAll(HostOptions options, Logger log)
      : options_(std::move(options)),
        log_(std::move(log)),
        loop_(net::create_loop("muster-host", log_)),
        evidence_(nothing_known_of(options_.ranks)) {}

  ~HostOfAll() override {
    // The verdict that is due is told before the connections end.
    net::run_and_wait(
        *loop_, [this] { conclude(); }, Deadline::after(loop_->clock(), kSettle));
    coordinator_.reset();
    loop_->stop();  // nothing may call what is being destroyed
  }

  Status open(const net::Credentials& credentials) {
    MUSTER_ASSIGN(network_, net::create_network(*loop_, credentials, {}, log_));
    cluster::CoordinatorOptions options;
    options.policy.start_workers = options.policy.min_workers = options.policy.max_workers =
        options.own = options_.ranks;
    options.policy.keeps_ranks = true;
    options.join_timeout = options_.join_timeout;
    options.meeting = options_.meeting;
    MUSTER_ASSIGN(coordinator_,
                  cluster::create_coordinator(*network_, options_.listen, options, events(), log_));
    return ok();
  }

  const net::Address& address() const noexcept override { return coordinator_->address(); }

  void wait_for_the_others(Deadline deadline) noexcept override {
    std::unique_lock lock(mutex_);
    const Deadline patience = Deadline::after(loop_->clock(), kPatience);
    if (are_gone_by(std::min(patience.at(), deadline.at()), lock)) return;
    if (deadline.at() <= patience.at()) return;
    log_->info("[world] rank 0 has come to its end and waits for rank {}", under_way());
    if (!are_gone_by(deadline.at(), lock))
      log_->warn("[world] rank 0 waits no longer for rank {}", under_way());
  }

 private:
  // All on the loop's thread.
  cluster::CoordinatorEvents events() {
    cluster::CoordinatorEvents events;
    events.on_generation = [this](const cluster::Welcome&) {
      change([](cluster::Evidence& of) { of.joined = true; });
    };
    events.on_leave = [this](std::int32_t rank, const cluster::Leave&) {
      change(rank, [](cluster::Evidence& of) { of.left = true; });
    };
    events.on_failure = [this](std::int32_t rank, const cluster::Failure& failure) {
      change(rank, [&](cluster::Evidence& of) {
        if (of.reported) return;
        of.reported = failure.error;
        of.concerns = failure.concerns;
        of.accused = to_int(failure.error.peer) + 1;
        of.reported_at = loop_->clock().now();
      });
      consider();
    };
    events.on_lost = [this](std::int32_t rank, const Error& why) {
      change(rank, [&](cluster::Evidence& of) {
        if (of.lost) return;
        of.lost = why;
        of.lost_at = loop_->clock().now();
      });
      consider();
    };
    events.on_other_version = [this](const Error& why) { tell(why); };
    events.on_join_timeout = [this](const Error& why) { tell(why); };
    return events;
  }

  template <class Change>
  void change(const Change& change) {
    const std::lock_guard lock(mutex_);
    std::ranges::for_each(evidence_, change);
    changed_.notify_all();
  }
  template <class Change>
  void change(std::int32_t rank, const Change& change) {
    const std::lock_guard lock(mutex_);
    change(evidence_.at(static_cast<std::size_t>(rank)));
    changed_.notify_all();
  }

  void consider() {
    if (!settle_timer_)
      settle_timer_ = loop_->call_at(loop_->clock().now() + kSettle, [this] { conclude(); });
  }

  void conclude() {
    const auto verdict = cluster::judge(evidence_);
    if (!verdict) return;
    const auto& culprit = evidence_.at(static_cast<std::size_t>(to_int(verdict->culprit)));
    if (culprit.reported && culprit.reported->peer == kNoRank) {
      Error told = *culprit.reported;
      told.peer = culprit.rank;
      return tell(told);
    }
    tell(fail(ErrorCode::kPeerLost,
              fmt::format("[world] rank {} {}", to_int(culprit.rank), verdict->reason),
              culprit.rank));
  }

  void tell(const Error& why) {
    if (!std::exchange(told_, true)) coordinator_->broadcast(cluster::Failure{why, {}});
  }

  bool are_gone_by(TimePoint latest, std::unique_lock<std::mutex>& lock) {
    while (!under_way().empty() && loop_->clock().now() < latest)
      loop_->clock().wait_until(lock, changed_, latest);
    return under_way().empty();
  }

  // "1, 2"; with the mutex held.
  std::string under_way() const {
    std::string ranks;
    for (const auto& of : evidence_)
      if (of.rank != Rank{0} && of.joined && !of.left && !of.lost)
        ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", to_int(of.rank));
    return ranks;
  }

  const HostOptions options_;
  const Logger log_;
  std::unique_ptr<net::SystemLoop> loop_;
  std::unique_ptr<net::Network> network_;
  std::mutex mutex_;  // written on the loop's thread alone
  std::condition_variable changed_;
  std::vector<cluster::Evidence> evidence_;
  net::Registration settle_timer_;
  bool told_ = false;
  std::unique_ptr<cluster::Coordinator> coordinator_;
};

}  // namespace

Result<std::unique_ptr<Host>> create_host(const net::Credentials& credentials, HostOptions options,
                                          Logger log) {
  auto host = std::make_unique<HostOfAll>(std::move(options), std::move(log));
  MUSTER_TRY(host->open(credentials));
  return host;
}

}  // namespace muster::app
