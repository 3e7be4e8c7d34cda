#pragma once
// Lanes: the threads of a worker that each run one slice at a time, forward and backward, with
// single-threaded kernels. Lane 0 is the caller's own thread, so one lane costs no hand-over.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "muster/base/result.h"

namespace muster::parallel {

class LanePool {
 public:
  // Throws std::system_error where no further thread can be had.
  explicit LanePool(std::int32_t lanes);
  ~LanePool();

  std::int32_t size() const noexcept { return static_cast<std::int32_t>(threads_.size()) + 1; }

  // Runs `body(lane)` on every lane at once and returns when all are done: the error of the lowest
  // lane that failed, if any. Exceptions of libtorch become errors. One caller at a time.
  Status run(const std::function<Status(std::int32_t)>& body);

 private:
  void serve(std::int32_t lane);
  void stop();

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<Status(std::int32_t)>* body_ = nullptr;  // guarded by mutex_
  std::uint64_t round_ = 0;                                    // guarded by mutex_
  std::int32_t running_ = 0;                                   // guarded by mutex_
  bool stopping_ = false;                                      // guarded by mutex_
  std::vector<Status> outcomes_;                               // slot i: written by lane i alone
  std::vector<std::jthread> threads_;
};

}  // namespace muster::parallel
