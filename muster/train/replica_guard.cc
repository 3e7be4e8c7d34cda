#include "muster/train/replica_guard.h"

#include <utility>

namespace muster::train {

void ReplicaGuard::before_update() {
  if (checksum_ && state_checksum(strategy_) != *checksum_) guilty_ = true;
}

void ReplicaGuard::after_update(Step step) {
  checksum_ = state_checksum(strategy_);
  checksums_[step] = *checksum_;
  if (!disputed_ || diverged_ != kNever) return;
  const auto before = first_attempt_.find(step);
  if (before != first_attempt_.end() && before->second != *checksum_) diverged_ = to_int(step);
}

void ReplicaGuard::forget_update() {
  checksum_.reset();
  guilty_ = false;
}

ReplicaReport ReplicaGuard::report() const {
  ReplicaReport report{.sum = checksum_ ? *checksum_ : state_checksum(strategy_),
                       .guilty = guilty_};
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
  first_attempt_ = checksums_;
  diverged_ = kNever;
}

std::int64_t ReplicaGuard::diverged() noexcept {
  disputed_.reset();
  return std::exchange(diverged_, kNever);
}

}  // namespace muster::train
