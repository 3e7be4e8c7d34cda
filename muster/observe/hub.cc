#include "muster/observe/hub.h"

#include <algorithm>
#include <utility>

namespace muster::observe {

struct Hub::Subscription::Channel {
  std::mutex mutex;
  std::vector<std::shared_ptr<Sink>> sinks;  // guarded by mutex
};

Hub::Subscription& Hub::Subscription::operator=(Subscription&& other) noexcept {
  if (this != &other) {
    end();
    channel_ = std::move(other.channel_);
    sink_ = std::exchange(other.sink_, nullptr);
  }
  return *this;
}

void Hub::Subscription::end() noexcept {
  const std::shared_ptr<Channel> channel = std::exchange(channel_, nullptr);
  if (!channel) return;
  std::shared_ptr<Sink> last;  // destroyed after the lock is released: it may take its time
  const std::lock_guard lock(channel->mutex);
  const auto found = std::ranges::find(channel->sinks, sink_, &std::shared_ptr<Sink>::get);
  if (found == channel->sinks.end()) return;
  last = std::move(*found);
  channel->sinks.erase(found);
}

Hub::Hub() : channel_(std::make_shared<Subscription::Channel>()) {}

Hub::Subscription Hub::subscribe(std::shared_ptr<Sink> sink) {
  const Sink* const key = sink.get();
  const std::lock_guard lock(channel_->mutex);
  channel_->sinks.push_back(std::move(sink));
  return {channel_, key};
}

void Hub::publish(const Record& record) noexcept {
  const std::lock_guard lock(channel_->mutex);
  for (const std::shared_ptr<Sink>& sink : channel_->sinks) sink->take(record);
}

}  // namespace muster::observe
