// The trainer where each rank has a part of the state: what becomes of it when one dies. And where
// nobody has what all need: how they go back to the last checkpoint.
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "muster/base/units.h"
#include "muster/train/recovery.h"
#include "muster/train/trainer.h"

namespace muster::train {
namespace {

constexpr std::int64_t kNoCheckpoint = -1;

}  // namespace

Status Trainer::reunite(const Entry& entry, const std::vector<Standing>& standings) {
  std::vector<std::int32_t> parts;
  parts.reserve(static_cast<std::size_t>(group().size));
  for (std::int32_t rank = 0; rank < group().size; ++rank)
    parts.push_back(parts_.strategy.part_of(Rank{rank}));
  const Reunion reunion = decide_reunion(standings, parts);
  if (reunion.goes_back()) return plan_return(entry, reunion);
  // Who comes anew knows of no dispute, and could not take part in its end.
  if (!reunion.same) guard_.drop_dispute();
  const TimePoint since = parts_.clock.now() - reunion.idle;
  if (!reunion.same) MUSTER_TRY(get_position(reunion));
  begin_generation();
  take_roles(!reunion.same && group().rank != reunion.leader);
  MUSTER_TRY(take_up(share(entry.workers)));  // before tensors come: it may cut them
  if (neighbours_)
    MUSTER_TRY(neighbours_->enter(entry.communicator, parts_.strategy, op_for("neighbours")));
  if (!reunion.same) MUSTER_TRY(get_parts(entry, reunion));
  MUSTER_TRY(verify_reunion(entry, reunion));
  if (back_) return ok();
  if (idle_since_ || options_.newcomer) tell_reunion(reunion, parts_.clock.now() - since);
  idle_since_.reset();
  return ok();
}

Status Trainer::get_position(const Reunion& reunion) {
  const Rank me = group().rank;
  parts_.checkpoints.wait_until_copied();
  whole_ = reunion.sources[static_cast<std::size_t>(to_int(me))] == me;
  MUSTER_TRY(copy_position(*parts_.generations.current().communicator, reunion.leader,
                           parts_.strategy, position_, op_for("position")));
  take_over();
  if (!whole_) guard_.forget_update();
  return ok();
}

Status Trainer::get_parts(const Entry& entry, const Reunion& reunion) {
  comm::Communicator& communicator = *entry.communicator;
  const comm::OpOptions op = op_for("state of another rank");
  std::vector<Rank> sources = reunion.sources;
  for (const Rank rank : reunion.restored) {
    if (rank == group().rank)
      MUSTER_TRY(NeighbourCopy::take(communicator, parts_.strategy, op));
    else if (sources[static_cast<std::size_t>(to_int(rank))] == group().rank)
      MUSTER_TRY(neighbours_->give(parts_.strategy));
    sources[static_cast<std::size_t>(to_int(rank))] = rank;
  }
  MUSTER_TRY(copy_parts(communicator, sources, parts_.strategy, op));
  whole_ = true;
  parts_.strategy.loaded(progress_.optimizer_steps);
  // What strategies have made of their tensors is made of others now.
  return parts_.strategy.enter(entry.communicator, assignment_.owners);
}

// The state is made anew on all ranks, since those that live are of no use without the others.
Status Trainer::plan_return(const Entry& entry, const Reunion& reunion) {
  const Generation generation = group().generation;
  if (options_.returned && options_.returned->generation == generation)
    return fail(ErrorCode::kCorrupt,
                "[train/recovery] workers have read different states from the same checkpoint; "
                "`muster checkpoint verify` shows whether it is damaged");
  MUSTER_ASSIGN(const std::optional<Step> checkpoint, agree_on_checkpoint());
  back_ = Return{.checkpoint = checkpoint,
                 .from = reunion.furthest,
                 .differ = !reunion.goes_back(),
                 .rollbacks = reunion.rollbacks + 1,
                 .generation = generation};
  if (reunion.idle > Duration{}) back_->began = parts_.clock.now() - reunion.idle;
  if (reunion.missing.size() == entry.workers.size()) return ok();
  for (const Rank rank : reunion.missing)
    back_->missing.push_back({rank, entry.workers[static_cast<std::size_t>(to_int(rank))]});
  return ok();
}

// Whoever saves has to come to its end before others look for what is there.
Result<std::optional<Step>> Trainer::agree_on_checkpoint() {
  parts_.now_doing(progress_.committed, "finishing the checkpoint");
  MUSTER_TRY(wait_for_disk(Standstill::kSave));
  std::int64_t step = kNoCheckpoint;
  if (is_first()) {
    MUSTER_ASSIGN(const std::optional<Step> newest, parts_.checkpoints.newest());
    if (newest) step = to_int(*newest);
  }
  const comm::Broadcast told{.buffer = view_of(std::span(&step, 1)), .root = Rank{0}};
  MUSTER_TRY(parts_.generations.current()
                 .communicator->submit(told, op_for("the last checkpoint"))
                 .wait());
  return step == kNoCheckpoint ? std::nullopt : std::optional(Step{step});
}

// Before any step that is taken again. How many those are is added by who knows what was told.
void Trainer::tell_return() {
  const Return& back = *options_.returned;
  const std::string where =
      back.checkpoint
          ? fmt::format("all go back to step {}, the last checkpoint", to_int(progress_.committed))
          : std::string("all begin anew, for there is no checkpoint");
  std::string why = "nobody is left who holds the state";
  if (back.differ) why = "weights differ from which those who come anew have got theirs";
  if (!back.missing.empty())
    why = fmt::format("nobody else has what {} held",
                      name_holders(back.missing, options_.standbys > 0));
  std::optional<Duration> took;
  if (back.began) took = parts_.clock.now() - *back.began;
  tell(observe::WentBack{
      .to = progress_.committed,
      .generation = back.generation,
      .from = back.from,
      .how = fmt::format("{}: {}, since {}", describe_generation(took), where, why),
      .rollbacks = back.rollbacks});
}

void Trainer::tell_reunion(const Reunion& reunion, Duration took) {
  std::string text = fmt::format("{}: it goes on after step {}", describe_generation(took),
                                 to_int(progress_.committed));
  std::vector<std::int32_t> newcomers;
  for (std::size_t rank = 0; rank < reunion.sources.size(); ++rank) {
    const Rank taker{static_cast<std::int32_t>(rank)};
    if (reunion.sources[rank] == taker) continue;
    newcomers.push_back(worker_at(taker));
    const bool kept = std::ranges::find(reunion.restored, taker) != reunion.restored.end();
    text += fmt::format("; worker {} got its state from {}worker {}{}", worker_at(taker),
                        kept ? "the copy that " : "", worker_at(reunion.sources[rank]),
                        kept ? " has kept" : "");
  }
  tell_generation(std::move(text), std::move(newcomers));
}

}  // namespace muster::train
