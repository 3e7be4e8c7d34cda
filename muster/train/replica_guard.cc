#include "muster/train/replica_guard.h"

#include <utility>

namespace muster::train {

bool ReplicaGuard::has_changed() const {
  return guarded_ && guarded_checksum(strategy_) != *guarded_;
}

void ReplicaGuard::before_update() { guilty_ |= has_changed(); }

void ReplicaGuard::after_update(Step step) {
  guarded_ = guarded_checksum(strategy_);
  checksums_[step] = *guarded_;
  if (!disputed_ || diverged_ != kNever) return;
  const auto before = first_attempt_.find(step);
  const bool other_weights = before != first_attempt_.end() && before->second != *guarded_;
  const bool other_state = step == *disputed_ && state_checksum(strategy_) != disputed_state_;
  if (other_weights || other_state) diverged_ = to_int(step);
}

void ReplicaGuard::forget_update() {
  guarded_.reset();
  guilty_ = false;
}

ReplicaReport ReplicaGuard::report() const {
  ReplicaReport report{.sum = state_checksum(strategy_), .guilty = guilty_ || has_changed()};
  if (verified_.exists()) report.verified = verified();
  return report;
}

void ReplicaGuard::trust(const Progress& progress) {
  verified_.take(strategy_, progress);
  checksums_.clear();
  times_gone_back_ = 0;
}

const Progress& ReplicaGuard::go_back() {
  ++times_gone_back_;
  forget_update();
  checksums_.clear();
  verified_.restore(strategy_);
  return verified_.progress();
}

void ReplicaGuard::dispute(Step step) {
  disputed_ = step;
  disputed_state_ = state_checksum(strategy_);
  first_attempt_ = checksums_;
  diverged_ = kNever;
}

std::int64_t ReplicaGuard::diverged() noexcept {
  disputed_.reset();
  return std::exchange(diverged_, kNever);
}

}  // namespace muster::train
