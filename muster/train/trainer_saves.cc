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

}  // namespace

// On all ranks.
Result<Trainer::Turn> Trainer::hear_first(Turn mine) {
  auto word = static_cast<std::uint8_t>(mine);
  MUSTER_TRY(parts_.generations.current()
                 .communicator
                 ->submit(comm::Broadcast{.buffer = view_of(std::span(&word, 1)), .root = Rank{0}},
                          op_for("the disk of the checkpoints"))
                 .wait());
  return static_cast<Turn>(word);
}

// When the training is over, nobody stands still for it. At a change only a first rank that leaves
// has to end its save.
Status Trainer::wait_for_disk(Standstill why) {
  const TimePoint began = parts_.clock.now();
  const Deadline deadline = Deadline::after(parts_.clock, kSavePatience);
  for (Turn turn = Turn::kIsBusy; turn == Turn::kIsBusy;) {
    if (is_first()) {
      const bool matters = why != Standstill::kLeave || parts_.generations.leaving();
      MUSTER_ASSIGN(const bool done,
                    matters ? parts_.checkpoints.done(options_.op.timeout / kSaysSoTimes,
                                                      why != Standstill::kEnd)
                            : Result<bool>(true));
      if (!done && deadline.passed(parts_.clock)) return parts_.checkpoints.give_up();
      turn = done ? Turn::kHasSaved : Turn::kIsBusy;
    }
    MUSTER_ASSIGN(turn, hear_first(turn));
  }
  between_.saving += parts_.clock.now() - began;
  return ok();
}

bool Trainer::save_due() const {
  return checkpoint_due_.due(progress_.committed) || due_by_flag(parallel::Flag::kCheckpoint);
}

// A training that runs away must not replace the checkpoints from before.
bool Trainer::wants_save() const {
  return (save_due() || position_.owes_save || inherits_save()) && !divergence_.doubtful();
}

// The first rank that began it may be gone before its end.
bool Trainer::inherits_save() const {
  return position_.begun && position_.begun->generation != group().generation;
}

// Nothing is saved that has not been compared. Where there is no other reason to compare, the disk
// should have room for the save: while it is slow, one is owed at every step. Nothing: it is asked
// once it is known whether the weights are the best.
Result<std::optional<Trainer::Turn>> Trainer::ask_before_comparing() {
  if (!compares_replicas() || replicas_due() || !wants_save()) return std::optional<Turn>();
  MUSTER_ASSIGN(const Turn turn, take_turn(false));
  return std::optional(turn);
}

// After a step. Whether anything was due.
Result<bool> Trainer::save_what_is_due(bool best, std::optional<Turn> asked) {
  const bool due = save_due();
  const bool must = due || best || position_.owes_save;
  if (!must && !inherits_save()) return false;
  if (divergence_.doubtful()) {
    tell_of_doubt(best);
    position_.owes_save |= due;
    return due;
  }
  MUSTER_ASSIGN(const Turn turn, asked ? Result<Turn>(*asked) : take_turn(best));
  if (turn == Turn::kIsBusy && must) put_off(best);
  if (turn == Turn::kHasSaved) checkpoint_due_.restart(parts_.clock.now());
  if (turn == Turn::kSaves) MUSTER_TRY(save());
  if (turn != Turn::kIsBusy && !options_.checkpoint.asynchronous)
    MUSTER_TRY(wait_for_disk(Standstill::kSave));
  note_turn(turn, must);
  return due || best || turn == Turn::kSaves;
}

// Last: on all ranks, or on none that takes this again.
void Trainer::note_turn(Turn turn, bool must) {
  position_.owes_save = turn == Turn::kIsBusy && must;
  if (turn == Turn::kFound) position_.begun->generation = group().generation;
  if (turn != Turn::kSaves) return;
  position_.begun.reset();
  if (options_.checkpoint.asynchronous)
    position_.begun = BegunSave{progress_.committed, group().generation};
}

Result<Trainer::Turn> Trainer::take_turn(bool best) {
  parts_.now_doing(progress_.committed, "saving a checkpoint");
  const TimePoint began = parts_.clock.now();
  Turn turn = Turn::kSaves;
  if (is_first()) {
    MUSTER_ASSIGN(turn, own_turn(best));
  }
  MUSTER_ASSIGN(turn, hear_first(turn));
  between_.saving += parts_.clock.now() - began;
  return turn;
}

// An earlier save is waited for once, not again at every step that still owes one.
Result<Trainer::Turn> Trainer::own_turn(bool best) {
  if (!best && !save_due() && !position_.owes_save) return turn_of_heir();
  // After going back steps come again.
  if (!best && saved_ >= progress_.committed) return Turn::kHasSaved;
  const Duration patience = options_.op.timeout / kSaysSoTimes;
  MUSTER_ASSIGN(const bool free,
                parts_.checkpoints.done(position_.owes_save ? Duration{} : patience));
  return free ? Turn::kSaves : Turn::kIsBusy;
}

// Nothing is to be saved but what another first rank may not have come to the end of.
Result<Trainer::Turn> Trainer::turn_of_heir() {
  MUSTER_ASSIGN(const std::optional<bool> there,
                parts_.checkpoints.has(position_.begun->step, options_.op.timeout / kSaysSoTimes));
  if (!there) return Turn::kIsBusy;
  return *there ? Turn::kFound : Turn::kSaves;
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

// Of a save that was due once: it is owed until the losses have come down.
void Trainer::tell_of_doubt(bool best) {
  if (!best && std::exchange(told_of_doubt_, true)) return;
  const std::int64_t step = to_int(progress_.committed);
  parts_.hub.publish(observe::Notice{
      .severity = observe::Severity::kWarning,
      .text = best ? fmt::format("the weights after step {}, the best so far, are not kept: the "
                                 "losses of the last steps run away",
                                 step)
                   : fmt::format("the checkpoint due after step {} waits: the losses of the last "
                                 "steps run away, far above the first one's; it is written once "
                                 "they have come down",
                                 step)});
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

// The disk has nothing else to do.
Result<Trainer::Turn> Trainer::last_turn(bool must) {
  if (saved_ == progress_.committed) return Turn::kHasSaved;
  return must ? Turn::kSaves : turn_of_heir();
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
  const bool sound = !divergence_.doubtful();
  const bool must =
      options_.checkpoint.at_end || position_.next == Next::kStop || (position_.owes_save && sound);
  const bool wanted = must || (inherits_save() && sound);
  parts_.now_doing(progress_.committed, "finishing the checkpoint");
  MUSTER_TRY(wait_for_disk(Standstill::kEnd));
  for (Turn turn = wanted ? Turn::kIsBusy : Turn::kHasSaved; turn == Turn::kIsBusy;) {
    if (is_first()) {
      MUSTER_ASSIGN(turn, last_turn(must));
    }
    MUSTER_ASSIGN(turn, hear_first(turn));
    if (turn == Turn::kSaves) MUSTER_TRY(save());
    parts_.now_doing(progress_.committed, "finishing the checkpoint");
    // Who leaves before the last checkpoint is on the disk cannot take over from its writer.
    MUSTER_TRY(wait_for_disk(Standstill::kEnd));
  }
  return meet(op_for("end of the training"));
}

}  // namespace muster::train
