// Of a local job: as many workers as are wanted.
#include <algorithm>
#include <set>
#include <utility>

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
  wish.workers > now ? grow(std::move(wish)) : shrink(wish);
}

void LocalJob::grow(ScaleWish wish) {
  const auto now = static_cast<std::int32_t>(members_.size());
  const auto places = places_for(wish.workers - now);
  if (places.empty()) {
    if (spec_.request_workers && spec_.request_workers({now, wish.workers, arrived_}))
      observer_.on_request(now, wish);
    return;
  }
  wish.workers = now + static_cast<std::int32_t>(places.size());
  observer_.on_scale(now, wish);
  for (const std::int32_t place : places) start(place);
}

// Those in the last places, so that whole hosts become free, the launcher's own last of all. A
// signal would reach only what stands for a worker here, not one on another host.
void LocalJob::shrink(const ScaleWish& wish) {
  observer_.on_scale(static_cast<std::int32_t>(members_.size()), wish);
  auto members = members_;
  std::ranges::sort(members);
  for (auto i = static_cast<std::size_t>(wish.workers); i < members.size(); ++i)
    coordinator_->let_go(members[i]);
}

// The first that are free; a host that is tried again gets one worker.
std::vector<std::int32_t> LocalJob::places_for(std::int32_t workers) const {
  std::vector<std::int32_t> places;
  std::set<std::string> tried;
  for (std::int32_t number = 0; number < own_workers(spec_) && std::ssize(places) < workers;
       ++number) {
    const WorkerProcess* there = find(number);
    if ((there != nullptr && !there->ended()) || !may_grow_at(number)) continue;
    const std::string host = host_of(spec_, number);
    if (rests_.is_doubtful(host) && !tried.insert(host).second) continue;
    places.push_back(number);
  }
  return places;
}

bool LocalJob::may_grow_at(std::int32_t worker) const {
  const std::string host = host_of(spec_, worker);
  if (wrong_bits_of(host) > 1) return false;  // see distrusts_host_of()
  return host.empty() ? !starts_fail_at(worker) : !rests_.is_left_alone(host, loop_.clock().now());
}

// On another host, and nobody needs it: where it does not come up another host is as good, and this
// one may be there later.
bool LocalJob::is_one_more(const WorkerProcess& culprit) const {
  return spec_.scale && published_ && !culprit.evidence.joined && !culprit.remote_host().empty() &&
         left_without(culprit) >= least().workers;
}

// Of a host that does not answer one loss says why; the next tries would say the same.
void LocalJob::tell_loss(const WorkerProcess& culprit, const JobFailure& loss,
                         const Remainder& left) {
  if (!is_one_more(culprit)) return observer_.on_loss(loss, left);
  const std::string& host = culprit.remote_host();
  if (!rests_.is_doubtful(host)) observer_.on_loss(loss, left);
  if (const auto rest = rests_.fail(host, loop_.clock().now())) observer_.on_rest(host, *rest);
}

}  // namespace muster::cluster
