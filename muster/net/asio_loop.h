#pragma once
// The system's Loop, as the .cc files of this folder see it. Nothing outside includes this.
// Handlers inside Asio keep only weak references to what they serve, so an object dies with its
// last owner, also after the loop has stopped.

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <atomic>
#include <mutex>
#include <thread>

#include "muster/net/loop.h"

namespace muster::net {

class AsioLoop : public SystemLoop {
 public:
  AsioLoop(std::string name, Logger log, Clock& clock);
  ~AsioLoop() override;

  void post(std::function<void()> task) override;
  Registration call_at(TimePoint at, std::function<void()> task) override;
  bool on_loop_thread() const noexcept override;
  Clock& clock() const noexcept override { return clock_; }
  void stop() override;
  Registration watch(int fd, std::function<void()> readable) override;
  Registration on_signals(const std::vector<int>& numbers,
                          std::function<void(int)> arrived) override;

  const std::shared_ptr<asio::io_context>& context() const noexcept { return context_; }

 private:
  void run() noexcept;

  std::string name_;
  Logger log_;
  Clock& clock_;
  std::shared_ptr<asio::io_context> context_;
  asio::executor_work_guard<asio::io_context::executor_type> keep_running_;
  std::thread thread_;
  std::thread::id thread_id_;
  std::once_flag stopped_;
};

}  // namespace muster::net
