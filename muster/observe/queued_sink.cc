#include "muster/observe/queued_sink.h"

#include <fmt/format.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace muster::observe {
namespace {

constexpr Duration kIdle = std::chrono::minutes(1);  // an idle thread looks again

// What may be lost when a sink cannot follow: numbers and spans, never the turns of the run.
bool is_droppable(const Record& record) noexcept {
  return std::holds_alternative<Span>(record) || std::holds_alternative<Metrics>(record);
}

// What the thread and the sink share. It outlives the sink where the thread is stuck in a write.
struct Queue {
  Queue(std::shared_ptr<Sink> behind, Clock& time, std::size_t limit)
      : sink(std::move(behind)), clock(time), capacity(limit) {}

  const std::shared_ptr<Sink> sink;
  Clock& clock;
  const std::size_t capacity;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Record> records;  // guarded by mutex
  std::size_t dropped = 0;     // guarded by mutex
  bool closing = false;        // guarded by mutex
  bool drained = false;        // guarded by mutex

  void run();
};

void Queue::run() {
  std::unique_lock lock(mutex);
  while (!closing || !records.empty()) {
    if (records.empty()) {
      clock.wait_until(lock, changed, clock.now() + kIdle);
      continue;
    }
    const std::deque<Record> batch = std::exchange(records, {});
    const std::size_t lost = std::exchange(dropped, 0);
    lock.unlock();
    for (const Record& record : batch) sink->take(record);
    if (lost > 0) {
      sink->take(
          Notice{Severity::kWarning,
                 fmt::format("{} records could not be written in time and were left out", lost)});
    }
    lock.lock();
  }
  drained = true;
  changed.notify_all();
}

class QueuedSink final : public Sink {
 public:
  QueuedSink(std::shared_ptr<Sink> sink, Clock& clock, const QueuedSinkOptions& options)
      : queue_(std::make_shared<Queue>(std::move(sink), clock, options.capacity)),
        drain_timeout_(options.drain_timeout),
        thread_([queue = queue_] { queue->run(); }) {}

  ~QueuedSink() override {
    const TimePoint until = queue_->clock.now() + drain_timeout_;
    std::unique_lock lock(queue_->mutex);
    queue_->closing = true;
    queue_->changed.notify_all();
    while (!queue_->drained && queue_->clock.wait_until(lock, queue_->changed, until)) continue;
    const bool drained = queue_->drained;
    lock.unlock();
    // A thread stuck in a write cannot be joined; it keeps what it needs alive.
    drained ? thread_.join() : thread_.detach();
  }

  void take(const Record& record) noexcept override {
    const std::lock_guard lock(queue_->mutex);
    if (queue_->records.size() >= queue_->capacity && is_droppable(record)) {
      ++queue_->dropped;
      return;
    }
    queue_->records.push_back(record);
    queue_->changed.notify_all();
  }

 private:
  std::shared_ptr<Queue> queue_;
  Duration drain_timeout_;
  std::thread thread_;
};

}  // namespace

std::shared_ptr<Sink> create_queued_sink(std::shared_ptr<Sink> sink, Clock& clock,
                                         const QueuedSinkOptions& options) {
  return std::make_shared<QueuedSink>(std::move(sink), clock, options);
}

}  // namespace muster::observe
