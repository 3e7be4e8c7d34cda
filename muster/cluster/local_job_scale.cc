// Of a local job: as many workers as are wanted.
#include <algorithm>

#include "muster/cluster/local_job.h"

namespace muster::cluster {

void LocalJob::scale_later() {
  scale_timer_ = loop_.call_at(loop_.clock().now() + spec_.scale_every, [this] { scale(); });
}

Step LocalJob::newest_step() const {
  Step newest{0};
  for (const auto& [number, worker] : workers_) newest = std::max(newest, worker->progress.step);
  return newest;
}

// Nobody is sent away, or started, before those who are on the way have come, or gone.
void LocalJob::scale() {
  scale_later();
  if (state_ != State::kRunning || signal_ || !published_ || is_done()) return;
  const Step step = newest_step();
  const double seconds = std::chrono::duration<double>(spec_.scale_every).count();
  const auto now = static_cast<std::int32_t>(members_.size());
  const ScaleView view{.workers = now,
                       .rate = static_cast<double>(to_int(step) - to_int(scaled_step_)) / seconds,
                       .steady = scaled_generation_ == generation_,
                       .least = spec_.min_workers,
                       .most = spec_.max_workers};
  scaled_step_ = step;
  scaled_generation_ = generation_;
  const bool changing = std::ranges::any_of(workers_, [](const auto& entry) {
    const WorkerProcess& worker = *entry.second;
    return !worker.ended() && (!worker.evidence.joined || worker.drained);
  });
  ScaleWish wish = spec_.scale(view);
  wish.workers = std::clamp(wish.workers, view.least, view.most);
  if (changing || wish.workers == now) return;
  observer_.on_scale(now, wish);
  wish.workers > now ? grow_to(wish.workers) : shrink_to(wish.workers);
}

void LocalJob::grow_to(std::int32_t wanted) {
  if (wrong_bits_[""] > 1) return;  // see distrusts_host_of()
  auto missing = wanted - static_cast<std::int32_t>(members_.size());
  for (std::int32_t number = 0; number < spec_.max_workers && missing > 0; ++number) {
    const WorkerProcess* there = find(number);
    if (starts_fail_at(number)) continue;
    if ((there == nullptr || there->ended()) && start(number)) --missing;
  }
}

void LocalJob::shrink_to(std::int32_t wanted) {
  for (auto i = static_cast<std::size_t>(wanted); i < members_.size(); ++i)
    if (auto* worker = find(members_[i])) worker->ask_to_leave();
}

}  // namespace muster::cluster
