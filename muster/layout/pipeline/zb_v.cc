// ZB-V (Qi, Wan, Huang, Lin: "Zero bubble pipeline parallelism", ICLR 2024): the greedy search of
// the paper, on the V-shaped placement, within a limit of what a stage may hold.
//
// Stages first go forward until the first gradient comes; then they place, in rounds, a backward
// for the input and a forward each. The backwards for the weights wait, and go where a stage would
// else stand idle or has no room for the next forward. A few rules of taste decide the rest; the
// order is made under each, and the one with the shortest step is taken.

#include <algorithm>
#include <deque>
#include <optional>
#include <tuple>

#include "muster/base/check.h"
#include "muster/layout/pipeline/builders.h"

namespace muster::layout {
namespace {

// Which of a stage's two chunks: the one on the way down, the one on the way back up.
enum class Leg : std::size_t { kDown, kUp };

struct Rules {
  bool sees_links;      // counts the time of messages
  bool may_delay;       // the first gradient may wait for a forward to end
  bool keeps_room;      // a stage keeps room for its second chunk: never stuck, whatever the limit
  bool fills_forward;   // a gap before a forward takes a weights' part that does not quite fit,
  bool fills_backward;  // and so does one before a backward on the way down: where the stage has
                        // stood idle for less than the others, so that the step gets no longer
};

std::vector<Rules> all_rules() {
  constexpr int kAll = 32;
  std::vector<Rules> all;
  all.reserve(kAll);
  for (int bits = 0; bits < kAll; ++bits)
    all.push_back(
        {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0, (bits & 16) != 0});
  return all;
}

using Idle = std::vector<Duration>;  // by stage, between its first and its last action

class Search {
 public:
  Search(PipelineSize size, std::int32_t limit, const PipelineCosts& costs, Rules rules,
         const Idle& idle_before);

  // False: stuck for want of room.
  bool run();
  const Idle& idle() const noexcept { return idle_; }
  std::vector<std::vector<Action>> take();

 private:
  struct StageState {
    Duration free{};  // from then on
    std::int32_t held = 0;
    std::int32_t forwards[2] = {0, 0};  // by leg
    std::int32_t backwards[2] = {0, 0};
    std::deque<Action> weights;  // that can be computed at any time
    std::vector<Action> actions{};
  };
  using Moment = std::optional<Duration>;

  Chunk chunk(std::size_t stage, Leg leg) const;
  const ChunkCost& cost(Chunk chunk) const {
    return costs_.chunks[static_cast<std::size_t>(chunk)];
  }
  Duration link(Chunk boundary) const;
  Moment& output(std::int32_t micro_batch, Chunk chunk) {
    return cell(outputs_, micro_batch, chunk);
  }
  Moment& gradient(std::int32_t micro_batch, Chunk chunk) {
    return cell(gradients_, micro_batch, chunk);
  }
  Moment& cell(std::vector<Moment>& table, std::int32_t micro_batch, Chunk chunk) const {
    return table[static_cast<std::size_t>(micro_batch) * stage_of_.size() +
                 static_cast<std::size_t>(chunk)];
  }

  // When the stage's next forward or backward on that leg could begin; none: not known yet.
  Moment forward_ready(std::size_t stage, Leg leg);
  Moment backward_ready(std::size_t stage, Leg leg);
  bool has_room(std::size_t stage, Leg leg) const;
  std::optional<Leg> backward_leg(std::size_t stage);
  std::optional<Leg> forward_leg(std::size_t stage);

  void warm_up();
  std::optional<std::pair<std::size_t, Leg>> next_warm_up();
  bool leaves_in_time(std::size_t stage, Leg leg, Duration begin);
  void round();
  void place_forward(std::size_t stage, Leg leg);
  void place_backward(std::size_t stage, Leg leg);
  void place_weight(std::size_t stage);
  void fill(std::size_t stage, Duration until, bool even_late);
  Duration begin_at(std::size_t stage, Duration ready);
  bool may_idle_longer(std::size_t stage, Duration gap) const;
  std::size_t placed() const;

  const PipelineSize size_;
  const std::int32_t limit_;
  const PipelineCosts& costs_;
  const Rules rules_;
  const Idle& idle_before_;  // of the last order under these rules; empty: none
  const std::vector<Stage> stage_of_;
  std::vector<Moment> outputs_, gradients_;  // when a chunk has computed them
  std::vector<StageState> stages_;
  Idle idle_;
};

Search::Search(PipelineSize size, std::int32_t limit, const PipelineCosts& costs, Rules rules,
               const Idle& idle_before)
    : size_(size),
      limit_(limit),
      costs_(costs),
      rules_(rules),
      idle_before_(idle_before),
      stage_of_(v_placement(size.stages)),
      outputs_(stage_of_.size() * static_cast<std::size_t>(size.micro_batches)),
      gradients_(outputs_.size()),
      stages_(static_cast<std::size_t>(size.stages)),
      idle_(stages_.size()) {}

Chunk Search::chunk(std::size_t stage, Leg leg) const {
  const auto down = static_cast<std::int32_t>(stage);
  return Chunk{leg == Leg::kDown ? down : 2 * size_.stages - 1 - down};
}

Duration Search::link(Chunk boundary) const {
  const auto below = static_cast<std::size_t>(boundary);
  if (!rules_.sees_links || stage_of_[below] == stage_of_[below + 1]) return {};
  return costs_.link.latency + costs_.link.transfer(cost(boundary).output_bytes);
}

Search::Moment Search::forward_ready(std::size_t stage, Leg leg) {
  const std::int32_t micro_batch = stages_[stage].forwards[static_cast<std::size_t>(leg)];
  if (micro_batch == size_.micro_batches) return std::nullopt;
  const Chunk here = chunk(stage, leg);
  if (to_int(here) == 0) return Duration{};
  const Chunk below{to_int(here) - 1};
  const Moment input = output(micro_batch, below);
  return input ? Moment(*input + link(below)) : std::nullopt;
}

Search::Moment Search::backward_ready(std::size_t stage, Leg leg) {
  const std::int32_t micro_batch = stages_[stage].backwards[static_cast<std::size_t>(leg)];
  if (micro_batch == size_.micro_batches) return std::nullopt;
  const Chunk here = chunk(stage, leg);
  const Moment own = output(micro_batch, here);
  if (!own || to_int(here) + 1 == 2 * size_.stages) return own;
  const Moment above = gradient(micro_batch, Chunk{to_int(here) + 1});
  return above ? Moment(std::max(*own, *above + link(here))) : std::nullopt;
}

bool Search::has_room(std::size_t stage, Leg leg) const {
  const std::int32_t kept = rules_.keeps_room && leg == Leg::kDown ? 1 : 0;
  return stages_[stage].held + 1 + kept <= limit_;
}

// What a stage's next backward is for: the leg on which it is behind, or whose gradient is there.
std::optional<Leg> Search::backward_leg(std::size_t stage) {
  const StageState& state = stages_[stage];
  const Moment down = backward_ready(stage, Leg::kDown);
  const Moment up = backward_ready(stage, Leg::kUp);
  if (!down && state.backwards[1] < size_.micro_batches) return Leg::kUp;
  if (!up) return Leg::kDown;
  return state.backwards[1] <= state.backwards[0] || *up <= *down ? Leg::kUp : Leg::kDown;
}

std::optional<Leg> Search::forward_leg(std::size_t stage) {
  if (forward_ready(stage, Leg::kUp)) return Leg::kUp;
  if (forward_ready(stage, Leg::kDown)) return Leg::kDown;
  return std::nullopt;
}

Duration Search::begin_at(std::size_t stage, Duration ready) {
  StageState& state = stages_[stage];
  const Duration begin = std::max(state.free, ready);
  if (!state.actions.empty()) idle_[stage] += begin - state.free;
  return begin;
}

void Search::place_forward(std::size_t stage, Leg leg) {
  StageState& state = stages_[stage];
  const Duration begin = begin_at(stage, *forward_ready(stage, leg));
  const std::int32_t micro_batch = state.forwards[static_cast<std::size_t>(leg)]++;
  const Chunk here = chunk(stage, leg);
  state.free = begin + cost(here).forward;
  output(micro_batch, here) = state.free;
  state.actions.push_back({ActionKind::kForward, MicroBatch{micro_batch}, here});
  ++state.held;
}

void Search::place_backward(std::size_t stage, Leg leg) {
  StageState& state = stages_[stage];
  const Duration begin = begin_at(stage, *backward_ready(stage, leg));
  const std::int32_t micro_batch = state.backwards[static_cast<std::size_t>(leg)]++;
  const Chunk here = chunk(stage, leg);
  state.free = begin + cost(here).backward_input;
  gradient(micro_batch, here) = state.free;
  state.actions.push_back({ActionKind::kBackwardInput, MicroBatch{micro_batch}, here});
  state.weights.push_back({ActionKind::kBackwardWeight, MicroBatch{micro_batch}, here});
}

void Search::place_weight(std::size_t stage) {
  StageState& state = stages_[stage];
  const Action action = state.weights.front();
  state.weights.pop_front();
  state.free += cost(action.chunk).backward_weight;
  state.actions.push_back(action);
  --state.held;
}

// The step is as long as its idlest stage makes it; that may be one of the order made before.
bool Search::may_idle_longer(std::size_t stage, Duration gap) const {
  Duration worst = *std::ranges::max_element(idle_);
  if (!idle_before_.empty())
    worst = std::max(worst, *std::ranges::max_element(idle_before_) - idle_before_[stage]);
  return gap <= worst - idle_[stage];
}

// Weights' parts in the gap before what is ready at `until`.
void Search::fill(std::size_t stage, Duration until, bool even_late) {
  StageState& state = stages_[stage];
  while (!state.weights.empty() &&
         state.free + cost(state.weights.front().chunk).backward_weight <= until)
    place_weight(stage);
  const Duration gap = until - state.free;
  if (even_late && !state.weights.empty() && gap > Duration::zero() && !may_idle_longer(stage, gap))
    place_weight(stage);
}

// Whether a forward that begins then does not hold up the stage's first backward.
bool Search::leaves_in_time(std::size_t stage, Leg leg, Duration begin) {
  const Moment last = output(0, Chunk{2 * size_.stages - 1});
  if (!last) return true;
  Duration arrival = *last;
  for (std::size_t above = 0; above < stage; ++above)
    arrival += cost(chunk(above, Leg::kUp)).backward_input +
               link(Chunk{to_int(chunk(above, Leg::kUp)) - 1});
  return rules_.may_delay ? begin < arrival : begin + cost(chunk(stage, leg)).forward <= arrival;
}

// The forward that can begin first; the way up goes before the way down.
std::optional<std::pair<std::size_t, Leg>> Search::next_warm_up() {
  using Candidate = std::tuple<Duration, bool, std::size_t>;  // begin, on the way down, stage
  std::optional<Candidate> best;
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
    for (const Leg leg : {Leg::kUp, Leg::kDown}) {
      const Moment ready = forward_ready(stage, leg);
      if (!ready || !has_room(stage, leg)) continue;
      const Duration begin = std::max(*ready, stages_[stage].free);
      if (!leaves_in_time(stage, leg, begin)) continue;
      const Candidate candidate{begin, leg == Leg::kDown, stage};
      if (!best || candidate < *best) best = candidate;
    }
  }
  if (!best) return std::nullopt;
  return std::pair(std::get<2>(*best), std::get<1>(*best) ? Leg::kDown : Leg::kUp);
}

void Search::warm_up() {
  while (const auto next = next_warm_up()) place_forward(next->first, next->second);
}

// Gradients on the way up run from stage 0 to the last, on the way down back: a stage whose
// gradient comes in this very round has its turn after the one that sends it.
void Search::round() {
  std::vector<std::optional<Leg>> legs;
  legs.reserve(stages_.size());
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) legs.push_back(backward_leg(stage));
  const auto backward = [&](std::size_t stage, Leg leg, bool even_late) {
    if (legs[stage] != leg) return;
    const Moment ready = backward_ready(stage, leg);
    if (!ready) return;
    fill(stage, *ready, even_late);
    place_backward(stage, leg);
  };
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) backward(stage, Leg::kUp, true);
  for (std::size_t stage = stages_.size(); stage-- > 0;)
    backward(stage, Leg::kDown, rules_.fills_backward);
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
    const auto leg = forward_leg(stage);
    if (!leg) continue;
    while (!has_room(stage, *leg) && !stages_[stage].weights.empty()) place_weight(stage);
    if (!has_room(stage, *leg)) continue;
    fill(stage, *forward_ready(stage, *leg), rules_.fills_forward);
    place_forward(stage, *leg);
  }
}

std::size_t Search::placed() const {
  std::size_t sum = 0;
  for (const StageState& state : stages_) sum += state.actions.size();
  return sum;
}

bool Search::run() {
  warm_up();
  for (std::size_t before = 0; before != placed();) {
    before = placed();
    round();
  }
  for (std::size_t stage = 0; stage < stages_.size(); ++stage)
    while (!stages_[stage].weights.empty()) place_weight(stage);
  return placed() == 3 * outputs_.size();
}

std::vector<std::vector<Action>> Search::take() {
  std::vector<std::vector<Action>> actions;
  actions.reserve(stages_.size());
  for (StageState& state : stages_) actions.push_back(std::move(state.actions));
  return actions;
}

struct Best {
  std::optional<PipelineSchedule> schedule;
  std::pair<Duration, Duration> length{Duration::max(), Duration::max()};

  void offer(PipelineSchedule candidate, const PipelineCosts& costs) {
    const auto times = play(candidate, costs);
    MUSTER_CHECK(times.has_value(), "an order that was made in time can be played");
    const std::pair found{step_period(*times), makespan(*times)};
    if (schedule && found >= length) return;
    schedule = std::move(candidate);
    length = found;
  }
};

}  // namespace

PipelineSchedule make_zb_v(PipelineSize size, std::int32_t memory_limit,
                           const PipelineCosts& costs) {
  Best best;
  for (const Rules& rules : all_rules()) {
    Idle before;
    for (int attempt = 0; attempt < 3; ++attempt) {
      Search search(size, memory_limit, costs, rules, before);
      if (!search.run()) break;
      const Idle idle = search.idle();
      best.offer({PipelineKind::kZbV, size.micro_batches, v_placement(size.stages), search.take()},
                 costs);
      if (idle == before) break;
      before = idle;
    }
  }
  MUSTER_CHECK(best.schedule.has_value(), "with room kept, no limit from 2 on gets stuck");
  return std::move(*best.schedule);
}

}  // namespace muster::layout
