#pragma once
// One worker's part in finding wrong bits: what it knows of its own state from update to update,
// and the last state that all workers agreed on. One thread.

#include <cstdint>
#include <map>
#include <optional>

#include "muster/base/ids.h"
#include "muster/parallel/strategy.h"
#include "muster/train/progress.h"
#include "muster/train/replicas.h"
#include "muster/train/state_copy.h"

namespace muster::train {

class ReplicaGuard {
 public:
  // `strategy` outlives it.
  explicit ReplicaGuard(parallel::Strategy& strategy) : strategy_(strategy) {}

  // What is guarded is only read from one update to the next: a change between the two is a fault
  // of this worker's memory.
  void before_update();
  void after_update(Step step);
  void forget_update();  // the state is about to change otherwise, or did

  ReplicaReport report() const;

  // All are the same now.
  void trust(const Progress& progress);
  Step verified() const noexcept { return verified_.progress().committed; }  // by it
  // They are not: the state is again that of the last trust(), whose progress is returned.
  const Progress& go_back();
  int times_gone_back() const noexcept { return times_gone_back_; }  // since the last trust()

  // Nobody can tell who is wrong at `step`; all go back and come to it again.
  void dispute(Step step);
  std::optional<Step> disputed() const noexcept { return disputed_; }
  void drop_dispute() noexcept { disputed_.reset(); }
  // Ends the dispute: the first step that came out differently from this worker's first attempt;
  // kNever: none did.
  std::int64_t diverged() noexcept;
  static constexpr std::int64_t kNever = INT64_MAX;

 private:
  bool has_changed() const;

  parallel::Strategy& strategy_;
  StateCopy verified_;
  std::optional<std::uint64_t> guarded_;  // since the last update
  bool guilty_ = false;                   // it did not hold
  int times_gone_back_ = 0;
  std::map<Step, std::uint64_t> checksums_;  // since all were the same
  std::optional<Step> disputed_;
  StateChecksum disputed_state_;  // before this worker went back
  std::map<Step, std::uint64_t> first_attempt_;
  std::int64_t diverged_ = kNever;
};

}  // namespace muster::train
