#pragma once
// For tests of the trainer: a whole job in one process, each worker a thread with a small model of
// its own. Generations form, break, and take newcomers in, memories fail and workers die as a test
// says.

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/train/trainer.h"

namespace muster::train {

inline constexpr std::int64_t kSteps = 23;  // of a training

// Forms generations of threads; whoever is quarantined or dies is in none from then on. The state
// for newcomers is held up until step `holds_until` has been trained, all stand still for it, or
// the generation ends, and may be spoilt on its way.
class Town {
 public:
  explicit Town(std::int32_t size, std::int64_t holds_until = 0, bool spoils = false)
      : holds_until_(holds_until), spoils_(spoils) {
    for (std::int32_t worker = 0; worker < size; ++worker) workers_.push_back(worker);
    form();
  }

  // Whoever is quarantined or dies has its place taken by one that comes anew.
  void keep_ranks() noexcept { keeps_ranks_ = true; }
  bool keeps_ranks() const noexcept { return keeps_ranks_; }

  // The first generation after `than` that `worker` belongs to.
  Result<Entry> wait(std::int32_t worker, Generation than);

  void quarantine(std::int32_t worker) {
    const std::lock_guard lock(mutex_);
    quarantined.insert(worker);
    lose(worker);
  }
  void bury(std::int32_t worker) {
    const std::lock_guard lock(mutex_);
    lose(worker);
  }
  // From the next generation on, likewise planned.
  void dismiss(std::int32_t worker) {
    const std::lock_guard lock(mutex_);
    dismissed_.insert(worker);
    std::erase(workers_, worker);
    form();
    changed_.notify_all();
  }
  bool has_dismissed(std::int32_t worker) {
    const std::lock_guard lock(mutex_);
    return dismissed_.contains(worker);
  }
  bool goes_on_with(const std::vector<std::int32_t>& workers) {
    const std::lock_guard lock(mutex_);
    return std::ranges::all_of(workers,
                               [&](auto w) { return std::ranges::count(workers_, w) > 0; });
  }

  // From the next generation on, to which all change over when they like.
  void invite(const std::vector<std::int32_t>& newcomers) {
    const std::lock_guard lock(mutex_);
    workers_.insert(workers_.end(), newcomers.begin(), newcomers.end());
    form();
    changed_.notify_all();
  }
  Generation generation() {
    const std::lock_guard lock(mutex_);
    return generation_;
  }

  void trained(std::int64_t step) {
    const std::lock_guard lock(mutex_);
    trained_ = std::max(trained_, step);
    changed_.notify_all();
  }

  std::size_t size() {
    const std::lock_guard lock(mutex_);
    return workers_.size();
  }

  // All again in a new generation; the present one breaks.
  void break_up() {
    const std::lock_guard lock(mutex_);
    replace();
  }

  // The next sum of gradients that `worker` gets is wrong.
  void spoil_sum(std::int32_t worker) {
    const std::lock_guard lock(mutex_);
    spoilt_.insert(worker);
  }

  // Until `count` workers have come so far as to call did() with `what`.
  void did(std::int64_t what) {
    const std::lock_guard lock(mutex_);
    ++done_[what];
    changed_.notify_all();
  }
  bool wait_until_done(std::int64_t what, std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [&] { return done_[what] >= count; });
  }

  std::multiset<std::int32_t> quarantined;

 private:
  void lose(std::int32_t worker) {
    if (!keeps_ranks_) std::erase(workers_, worker);
    replace();
  }
  void replace();
  void form();
  void hold(Generation generation);
  bool spoils_sum(std::int32_t worker) {
    const std::lock_guard lock(mutex_);
    return spoilt_.erase(worker) > 0;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Generation generation_{0};
  std::vector<std::int32_t> workers_;
  std::vector<std::shared_ptr<comm::Communicator>> communicators_;
  std::map<std::int64_t, std::size_t> done_;
  const std::int64_t holds_until_;
  const bool spoils_;
  bool keeps_ranks_ = false;
  std::int64_t trained_ = 0;
  std::set<std::int32_t> spoilt_;
  std::set<std::int32_t> dismissed_;
};

struct Flip {
  std::int32_t worker = -1;   // nobody
  std::int64_t step = 0;      // after which the bit is wrong
  std::size_t tensor = 0;     // of weights and optimizer state together
  bool by_update = true;      // else by memory, before the next one
  bool swaps = false;         // two words in each other's place, instead of a bit
  bool to_nan = false;        // its first word is no number, instead of a bit
  bool of_gradients = false;  // of this step, in this worker's sum; instead of the state
};

// The generation breaks when all but `worker` have applied this step.
struct Break {
  std::int32_t worker = 0;
  std::int64_t step = 0;
};

// Before its step.
struct Farewell {
  std::int32_t worker = 0;
  std::int64_t step = 0;
};

// Likewise.
struct Death {
  std::int32_t worker = 0;
  std::int64_t step = 0;
};

struct Join {
  std::int64_t step = 0;  // at which they are there
  std::vector<std::int32_t> workers;
  std::int32_t time = 1;  // that the first worker comes to that step
};

// A worker whose samples take so long to read.
struct SlowData {
  std::int32_t worker = 0;
  Duration sample{};
};

// Where the workers save, and after how many steps each time. All that they save is kept.
struct Saving {
  std::int64_t every = 0;
  std::function<Files&(std::int32_t worker)> disk;
};

struct Faults {
  std::vector<Flip> flips = {};
  std::optional<Break> breaks = {};
  std::optional<Death> death = {};
  std::optional<Farewell> farewell = {};
  std::optional<Join> join = {};
  std::optional<SlowData> slow_data =
      {};  // with it workers compare their paces as often as they can
  std::optional<optim::LossScaleSpec> loss_scale = {};  // none: in f32; else in fp16
  bool compares_gradients = false;
  bool evaluates = false;  // after every third step, an average of the weights
  std::int64_t steps = kSteps;
  std::int32_t parts = 0;  // into which the state is cut, so that ranks are kept; 0: all hold all
  bool on_foreign_device = false;  // the model's tensors (models/testing/foreign_device.h)
  std::optional<Saving> saving = {};
  // What a worker does before it takes that step.
  std::function<void(std::int32_t worker, std::int64_t step)> before_step = {};
};

struct End {
  std::optional<Outcome> outcome;
  std::string error;
  std::string hash;
  std::string told;
  std::set<std::int64_t> steps;                // that were told
  std::map<std::int64_t, double> evaluations;  // their losses, by step
  std::set<std::int64_t> compared;             // after which replicas were
};

// What `size` workers come to, and those who join them. By worker.
std::map<std::int32_t, End> train(Town& town, std::int32_t size, const Faults& faults);

// What one worker comes to, left alone.
End alone(const Faults& faults);
// A hash of its state, in f32.
std::string undisturbed();

void expect_well(const End& end, const std::string& hash, std::int64_t steps = kSteps);

}  // namespace muster::train
