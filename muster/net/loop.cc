#include "muster/net/loop.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <asio/error.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <future>

#include "muster/base/awaited.h"
#include "muster/base/check.h"
#include "muster/net/asio_loop.h"

namespace muster::net {
namespace {

using ContextPtr = std::shared_ptr<asio::io_context>;

struct TimerState {
  TimerState(ContextPtr loop, std::function<void()> what)
      : context(std::move(loop)), timer(*context), task(std::move(what)) {}
  ContextPtr context;
  asio::steady_timer timer;
  std::function<void()> task;
};

struct WatchState : std::enable_shared_from_this<WatchState> {
  WatchState(ContextPtr loop, int fd, std::function<void()> what)
      : context(std::move(loop)),
        descriptor(*context, ::fcntl(fd, F_DUPFD_CLOEXEC, 0)),
        readable(std::move(what)) {}

  void wait() {
    descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                          [weak = weak_from_this()](const asio::error_code& error) {
                            const auto self = weak.lock();
                            if (!self || error) return;
                            self->readable();
                            self->wait();
                          });
  }

  ContextPtr context;
  asio::posix::stream_descriptor descriptor;  // a duplicate: closing it leaves the caller's open
  std::function<void()> readable;
};

bool is_ignored(int number) noexcept {
  struct sigaction now {};
  return ::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

struct SignalState : std::enable_shared_from_this<SignalState> {
  SignalState(ContextPtr loop, const std::vector<int>& numbers, std::function<void(int)> what)
      : context(std::move(loop)), signals(*context), arrived(std::move(what)) {
    for (const int number : numbers)
      if (number != SIGHUP || !is_ignored(number)) signals.add(number);
  }

  void wait() {
    signals.async_wait([weak = weak_from_this()](const asio::error_code& error, int number) {
      const auto self = weak.lock();
      if (!self || error) return;
      self->arrived(number);
      self->wait();
    });
  }

  ContextPtr context;
  asio::signal_set signals;
  std::function<void(int)> arrived;
};

}  // namespace

AsioLoop::AsioLoop(std::string name, Logger log, Clock& clock)
    : name_(std::move(name)),
      log_(std::move(log)),
      clock_(clock),
      context_(std::make_shared<asio::io_context>(1)),
      keep_running_(context_->get_executor()) {
  std::promise<std::thread::id> started;
  auto id = started.get_future();
  thread_ = std::thread([this, &started] {
    started.set_value(std::this_thread::get_id());
    run();
  });
  thread_id_ = id.get();
  pthread_setname_np(thread_.native_handle(), name_.substr(0, 15).c_str());
}

AsioLoop::~AsioLoop() { stop(); }

void AsioLoop::run() noexcept {
  while (!context_->stopped()) {
    try {
      context_->run();
    } catch (const std::exception& error) {
      log_->error("[net/loop] a task of loop {} threw: {}", name_, error.what());
    } catch (...) {
      log_->error("[net/loop] a task of loop {} threw something unknown", name_);
    }
  }
}

void AsioLoop::post(std::function<void()> task) {
  if (!context_->stopped()) asio::post(*context_, std::move(task));
}

Registration AsioLoop::call_at(TimePoint at, std::function<void()> task) {
  auto state = std::make_shared<TimerState>(context_, std::move(task));
  state->timer.expires_after(at - clock_.now());
  state->timer.async_wait([weak = std::weak_ptr(state)](const asio::error_code& error) {
    const auto timer = weak.lock();
    if (timer && !error) timer->task();
  });
  return state;
}

bool AsioLoop::on_loop_thread() const noexcept { return std::this_thread::get_id() == thread_id_; }

void AsioLoop::stop() {
  std::call_once(stopped_, [this] {
    MUSTER_CHECK(!on_loop_thread(), "a loop cannot wait for itself to end");
    context_->stop();
    thread_.join();
  });
}

Registration AsioLoop::watch(int fd, std::function<void()> readable) {
  auto state = std::make_shared<WatchState>(context_, fd, std::move(readable));
  state->wait();
  return state;
}

Registration AsioLoop::on_signals(const std::vector<int>& numbers,
                                  std::function<void(int)> arrived) {
  auto state = std::make_shared<SignalState>(context_, numbers, std::move(arrived));
  state->wait();
  return state;
}

std::unique_ptr<SystemLoop> create_loop(std::string name, Logger log, Clock& clock) {
  return std::make_unique<AsioLoop>(std::move(name), std::move(log), clock);
}

Result<std::string> read_available(int fd, std::size_t limit) {
  pollfd wanted{fd, POLLIN, 0};
  if (::poll(&wanted, 1, 0) == 0) return std::string();
  std::string bytes(limit, '\0');
  const auto count = ::read(fd, bytes.data(), limit);
  if (count == 0) return fail(ErrorCode::kNotFound, "[net/loop] the other end has closed");
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return std::string();
  if (count < 0)
    return fail(ErrorCode::kUnavailable,
                fmt::format("[net/loop] cannot read: {}", std::strerror(errno)));
  bytes.resize(static_cast<std::size_t>(count));
  return bytes;
}

bool run_and_wait(Loop& loop, std::function<void()> task, Deadline deadline) {
  if (loop.on_loop_thread()) {
    task();
    return true;
  }
  Awaited<bool> finished;
  loop.post([task = std::move(task), giver = finished.giver()] {
    task();
    giver->give(true);
  });
  return finished.wait(loop.clock(), deadline).value_or(false);
}

}  // namespace muster::net
