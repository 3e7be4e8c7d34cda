#include "muster/train/checkpoints.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "muster/base/units.h"
#include "muster/checkpoint/async_saver.h"
#include "muster/checkpoint/checkpointer.h"

namespace muster::train {
namespace {

constexpr Rank kWriter{0};

std::vector<NamedTensor> named(const std::vector<parallel::StateSlice>& state) {
  std::vector<NamedTensor> tensors;
  tensors.reserve(state.size());
  for (const parallel::StateSlice& slice : state) tensors.push_back({slice.name, slice.tensor});
  return tensors;
}

}  // namespace

class Checkpoints::Impl {
 public:
  Impl(CheckpointsOptions options, Files& files, observe::Hub& hub, Clock& clock)
      : options_(std::move(options)),
        hub_(hub),
        clock_(clock),
        checkpointer_(std::make_shared<checkpoint::Checkpointer>(
            files, clock, options_.folder,
            checkpoint::CheckpointOptions{.job = options_.job,
                                          .keep_last = static_cast<std::size_t>(options_.keep)})),
        saver_(checkpointer_, clock) {}

  void enter(Generation generation, bool writes) {
    generation_ = generation;
    if (writes && !options_.writes) previous_.reset();  // another one has written since
    options_.writes = writes;
  }

  Status save(const Progress& progress, parallel::Strategy& strategy, SaveWorth worth) {
    const TimePoint began = clock_.now();
    MUSTER_ASSIGN(const auto state, strategy.gather_state(kWriter));
    if (!options_.writes) return ok();
    checkpoint::SaveRequest request{.step = progress.committed,
                                    .generation = generation_,
                                    .model = named(state.model),
                                    .optimizer = named(state.optimizer),
                                    .state = to_json(progress),
                                    .protects_latest = !previous_ && !worth.proven,
                                    .protects_best = options_.keeps_best,
                                    .retires_others = !worth.doubtful};
    if (previous_ && !worth.proven) request.protect.push_back(*previous_);
    previous_ = progress.committed;
    MUSTER_TRY(check());
    MUSTER_TRY(saver_.start(std::move(request), Deadline::after(clock_, Duration{})));
    began_ = progress.committed;
    stall_ += clock_.now() - began;
    return ok();
  }

  Duration wait_until_copied() {
    const Duration waited = saver_.wait_until_copied();
    stall_ += waited;
    return waited;
  }

  Status check() {
    auto outcome = saver_.poll();
    return outcome ? announce(std::move(*outcome)) : ok();
  }

  Result<bool> done(Duration patience, bool stands_still) {
    const TimePoint began = clock_.now();
    auto saved = saver_.finish(Deadline::after(clock_, patience));
    if (stands_still && !(saved && !*saved)) stall_ += clock_.now() - began;
    if (!saved && saved.error().code == ErrorCode::kTimeout) return false;
    if (!saved) return saved.error();
    if (*saved) MUSTER_TRY(announce(std::move(**saved)));
    return true;
  }

  Result<std::optional<bool>> has(Step step, Duration patience) {
    if (began_ == step) return std::optional(true);
    MUSTER_ASSIGN(bool idle, done(Duration{}, false));
    if (idle && sought_ != step) {
      MUSTER_TRY(saver_.look_for(step));
      sought_ = step;
      MUSTER_ASSIGN(idle, done(patience, false));
    }
    return idle ? saver_.found() : std::nullopt;
  }

  Status finish() {
    MUSTER_ASSIGN(const bool whole, done(kSavePatience, false));
    return whole ? ok() : Status(give_up());
  }

  Error give_up() {
    saver_.abandon();
    return fail(
        ErrorCode::kUnavailable,
        fmt::format("[train/checkpoint] the save under way did not end within {}; the disk of "
                    "the run folder hangs, or is too slow: have it looked at, or give "
                    "run_folder another one",
                    format_duration(kSavePatience)));
  }

  Result<Progress> resume(parallel::Strategy& strategy, std::optional<Step> at_most) {
    const checkpoint::LoadTarget target{strategy.model_state(), strategy.optimizer_state(),
                                        !strategy.holds_all()};
    MUSTER_ASSIGN(const auto newest, checkpointer_->load_newest_whole(target, at_most));
    for (const checkpoint::Skipped& skipped : newest.skipped) {
      warn(fmt::format("passed over {}: {}", skipped.folder.string(), skipped.why.message));
    }
    previous_ = newest.loaded.step;
    return progress_from_json(newest.loaded.state);
  }

  void set_aside(Step step) {
    if (!options_.writes || !done(kSavePatience, false).value_or(false)) return;
    const auto there = checkpointer_->set_aside(step);
    if (!there && there.error().code == ErrorCode::kNotFound) return;
    warn(there ? fmt::format("the checkpoint of step {} has the weights whose loss is no number: "
                             "put away as {}",
                             to_int(step), there->string())
               : there.error().message);
  }

  Result<std::optional<Step>> newest() { return checkpointer_->latest(); }

 private:
  Status announce(Result<checkpoint::SavedCheckpoint> outcome) {
    if (!outcome) return std::move(outcome).error();
    const Duration stall = std::exchange(stall_, Duration{});
    if (outcome->retention_failed) warn(outcome->retention_failed->message);
    hub_.publish(observe::CheckpointWritten{.step = outcome->step,
                                            .path = outcome->folder.string(),
                                            .bytes = outcome->bytes,
                                            .stall = stall,
                                            .took = outcome->took});
    return ok();
  }

  void warn(std::string text) {
    hub_.publish(observe::Notice{observe::Severity::kWarning, std::move(text)});
  }

  CheckpointsOptions options_;
  observe::Hub& hub_;
  Clock& clock_;
  const std::shared_ptr<checkpoint::Checkpointer> checkpointer_;
  checkpoint::AsyncSaver saver_;
  Generation generation_{0};
  std::optional<Step> previous_;  // the last one saved or loaded
  std::optional<Step> began_;     // the last one whose save has begun
  std::optional<Step> sought_;    // that another may have saved
  Duration stall_{};              // of the save under way
};

Checkpoints::Checkpoints(CheckpointsOptions options, Files& files, observe::Hub& hub, Clock& clock)
    : impl_(std::make_unique<Impl>(std::move(options), files, hub, clock)) {}
Checkpoints::~Checkpoints() = default;

void Checkpoints::enter(Generation generation, bool writes) { impl_->enter(generation, writes); }
Status Checkpoints::save(const Progress& progress, parallel::Strategy& strategy, SaveWorth worth) {
  return impl_->save(progress, strategy, worth);
}
Duration Checkpoints::wait_until_copied() { return impl_->wait_until_copied(); }
Status Checkpoints::check() { return impl_->check(); }
Result<bool> Checkpoints::done(Duration patience, bool stands_still) {
  return impl_->done(patience, stands_still);
}
Result<std::optional<bool>> Checkpoints::has(Step step, Duration patience) {
  return impl_->has(step, patience);
}
Status Checkpoints::finish() { return impl_->finish(); }
Error Checkpoints::give_up() { return impl_->give_up(); }
Result<Progress> Checkpoints::resume(parallel::Strategy& strategy, std::optional<Step> at_most) {
  return impl_->resume(strategy, at_most);
}
void Checkpoints::set_aside(Step step) { impl_->set_aside(step); }
Result<std::optional<Step>> Checkpoints::newest() { return impl_->newest(); }

}  // namespace muster::train
