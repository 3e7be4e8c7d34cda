// The trainer's checkpoints: what is saved when, and what the other ranks do while the first one
// waits for its disk, which may take longer than they would wait for anybody. So they never wait
// for it with an operation that means something else: the first rank says again and again how far
// it is.
#include <fmt/format.h>

#include <span>
#include <utility>

#include "muster/train/trainer.h"

namespace muster::train {
namespace {

// How often the first rank says how far it is, as a share of the longest wait for anybody.
constexpr int kSaysSoTimes = 4;

enum Turn : std::uint8_t { kSaves, kHasSaved, kIsBusy };  // the first rank's

}  // namespace

// What the first rank says, which alone knows its disk; on all ranks.
Result<std::uint8_t> Trainer::hear_first(std::uint8_t mine) {
  const auto word = view_of(std::span(&mine, 1));
  MUSTER_TRY(parts_.generations.current()
                 .communicator
                 ->submit(comm::Broadcast{.buffer = word, .root = Rank{0}},
                          op_for("the disk of the checkpoints"))
                 .wait());
  return mine;
}

// When the training is over, nobody stands still for it. At a change only a first rank that leaves
// has to end its save.
Status Trainer::wait_for_disk(Standstill why) {
  const TimePoint began = parts_.clock.now();
  const Deadline deadline = Deadline::after(parts_.clock, kSavePatience);
  for (std::uint8_t turn = kIsBusy; turn == kIsBusy;) {
    if (is_first()) {
      const bool matters = why != Standstill::kLeave || parts_.generations.leaving();
      MUSTER_ASSIGN(const bool done,
                    matters ? parts_.checkpoints.done(options_.op.timeout / kSaysSoTimes,
                                                      why != Standstill::kEnd)
                            : Result<bool>(true));
      if (!done && deadline.passed(parts_.clock)) return parts_.checkpoints.give_up();
      turn = done ? kHasSaved : kIsBusy;
    }
    MUSTER_ASSIGN(turn, hear_first(turn));
  }
  between_.saving += parts_.clock.now() - began;
  return ok();
}

// After a step. Whether anything was due.
Result<bool> Trainer::save_what_is_due(bool best) {
  const Step step = progress_.committed;
  const bool due = checkpoint_due_.due(step) || due_by_flag(parallel::Flag::kCheckpoint);
  if (!due && !best && !position_.owes_save) return false;
  // A training that runs away must not replace the checkpoints from before.
  if (divergence_.doubtful()) {
    if (best) tell_best_is_doubtful();
    position_.owes_save |= due;
    return due;
  }
  parts_.now_doing(step, "saving a checkpoint");
  MUSTER_ASSIGN(const std::uint8_t turn, take_turn(best));
  if (turn == kIsBusy) put_off(best);
  if (turn == kSaves) MUSTER_TRY(save());
  if (turn != kIsBusy && !options_.checkpoint.asynchronous)
    MUSTER_TRY(wait_for_disk(Standstill::kSave));
  position_.owes_save = turn == kIsBusy;  // last: on all ranks, or on none that takes this again
  return due || best || turn == kSaves;
}

// An earlier save is waited for once, not again at every step that still owes one.
Result<std::uint8_t> Trainer::take_turn(bool best) {
  const TimePoint began = parts_.clock.now();
  std::uint8_t turn = kSaves;
  if (is_first() && !best && saved_ >= progress_.committed) {
    turn = kHasSaved;  // after going back steps come again
  } else if (is_first()) {
    const Duration patience = options_.op.timeout / kSaysSoTimes;
    MUSTER_ASSIGN(const bool free,
                  parts_.checkpoints.done(position_.owes_save ? Duration{} : patience));
    if (!free) turn = kIsBusy;
  }
  MUSTER_ASSIGN(turn, hear_first(turn));
  between_.saving += parts_.clock.now() - began;
  return turn;
}

// Until the disk has the save before. Told once.
void Trainer::put_off(bool best) {
  checkpoint_due_.restart(parts_.clock.now());
  if (std::exchange(told_of_disk_, true)) return;
  parts_.hub.publish(observe::Notice{
      .severity = observe::Severity::kWarning,
      .text = fmt::format("the checkpoint of step {} is put off until the one before is on the "
                          "disk, which is slow: "
                          "save less often (checkpoint.every), or give run_folder another disk{}",
                          to_int(progress_.committed),
                          best ? "; these weights, the best so far, are not kept" : "")});
}

void Trainer::tell_best_is_doubtful() {
  parts_.hub.publish(observe::Notice{
      .severity = observe::Severity::kWarning,
      .text = fmt::format("the weights after step {}, the best so far, are not kept: the losses of "
                          "the last steps run away",
                          to_int(progress_.committed))});
}

Status Trainer::save() {
  parts_.now_doing(progress_.committed, "saving a checkpoint");
  saved_ = progress_.committed;
  const TimePoint began = parts_.clock.now();
  checkpoint_due_.restart(began);
  Status begun = parts_.checkpoints.save(
      progress_, parts_.strategy,
      {.doubtful = divergence_.doubtful(), .proven = position_.evaluated == progress_.committed});
  between_.saving += parts_.clock.now() - began;
  return begun;
}

Status Trainer::conclude() {
  // Resumed where nothing was left to do: the results are still wanted.
  const bool evaluates = options_.evaluation.every != job::Interval::never();
  const Next ending = position_.next;
  if (ending != Next::kStop && evaluates && position_.evaluated != progress_.committed) {
    MUSTER_TRY(evaluate());
    position_.next = ending;  // there is nothing left to stop early
  }
  if (neighbours_) neighbours_->wait();  // of a last step that changed nothing
  const bool wanted = options_.checkpoint.at_end || position_.next == Next::kStop ||
                      (position_.owes_save && !divergence_.doubtful());
  parts_.now_doing(progress_.committed, "finishing the checkpoint");
  MUSTER_TRY(wait_for_disk(Standstill::kEnd));
  MUSTER_ASSIGN(const std::uint8_t turn,
                hear_first(saved_ == progress_.committed ? kHasSaved : kSaves));
  if (wanted && turn == kSaves) MUSTER_TRY(save());
  parts_.now_doing(progress_.committed, "finishing the checkpoint");
  // Who leaves before the last checkpoint is on the disk cannot take over from its writer.
  MUSTER_TRY(wait_for_disk(Standstill::kEnd));
  return meet(op_for("end of the training"));
}

}  // namespace muster::train
