#include "muster/parallel/lanes.h"

#include <ATen/Parallel.h>

#include "muster/models/torch_error.h"

namespace muster::parallel {
namespace {

Status run_body(const std::function<Status(std::int32_t)>& body, std::int32_t lane) {
  return models::catch_torch("worker/lane", [&] { return body(lane); });
}

}  // namespace

LanePool::LanePool(std::int32_t lanes) : outcomes_(static_cast<std::size_t>(lanes)) {
  at::set_num_threads(1);  // OpenMP keeps this per thread
  try {
    for (std::int32_t lane = 1; lane < lanes; ++lane)
      threads_.emplace_back([this, lane] { serve(lane); });
  } catch (...) {
    stop();  // those that run are joined, and would wait for ever
    throw;
  }
}

LanePool::~LanePool() { stop(); }

void LanePool::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

Status LanePool::run(const std::function<Status(std::int32_t)>& body) {
  {
    const std::lock_guard lock(mutex_);
    body_ = &body;
    running_ = size() - 1;
    ++round_;
    changed_.notify_all();
  }
  outcomes_[0] = run_body(body, 0);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return running_ == 0; });
  for (Status& outcome : outcomes_) {
    if (!outcome) return std::move(outcome).error();
  }
  return ok();
}

void LanePool::serve(std::int32_t lane) {
  at::set_num_threads(1);
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || round_ != seen; });
    if (stopping_) return;
    seen = round_;
    const auto& body = *body_;
    lock.unlock();
    Status outcome = run_body(body, lane);
    lock.lock();
    outcomes_[static_cast<std::size_t>(lane)] = std::move(outcome);
    if (--running_ == 0) changed_.notify_all();
  }
}

}  // namespace muster::parallel
