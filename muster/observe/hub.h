#pragma once
// Hub: fans records out to sinks (console, metrics.jsonl, the control channel, …). Thread-safe.

#include <memory>
#include <mutex>
#include <vector>

#include "muster/observe/event.h"

namespace muster::observe {

// Takes records, one at a time, in the order of publication. take() neither blocks nor throws nor
// publishes; a sink that writes to a disk or terminal is put behind a QueuedSink.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void take(const Record& record) noexcept = 0;
};

class Hub {
 public:
  // Keeps a sink subscribed for as long as it lives. May outlive the hub.
  class Subscription {
   public:
    Subscription() = default;
    ~Subscription() { end(); }
    Subscription(Subscription&& other) noexcept = default;
    Subscription& operator=(Subscription&& other) noexcept;
    void end() noexcept;  // afterwards the sink is not called again

   private:
    friend class Hub;
    struct Channel;
    Subscription(std::shared_ptr<Channel> channel, const Sink* sink)
        : channel_(std::move(channel)), sink_(sink) {}
    std::shared_ptr<Channel> channel_;
    const Sink* sink_ = nullptr;
  };

  Hub();
  [[nodiscard]] Subscription subscribe(std::shared_ptr<Sink> sink);
  void publish(const Record& record) noexcept;

 private:
  std::shared_ptr<Subscription::Channel> channel_;
};

}  // namespace muster::observe
