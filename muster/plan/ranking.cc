#include "muster/plan/ranking.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "muster/base/units.h"
#include "muster/plan/timeline.h"

namespace muster::plan {
namespace {

int group_of(const RankedWay& way) { return way.possible() ? 0 : way.estimate ? 1 : 2; }

// `timed`: passes were measured.
bool before(const RankedWay& a, const RankedWay& b, bool timed) {
  if (group_of(a) != group_of(b)) return group_of(a) < group_of(b);
  if (timed && group_of(a) == 0 && a.estimate->time.total() != b.estimate->time.total())
    return a.estimate->time.total() < b.estimate->time.total();
  if (group_of(a) < 2 && a.estimate->memory.total() != b.estimate->memory.total())
    return a.estimate->memory.total() < b.estimate->memory.total();
  return a.candidate < b.candidate;
}

// Among those that leave the bits as they are.
void prefer_plain(std::vector<RankedWay>& ranking, const std::vector<Candidate>& candidates) {
  const auto may = [&](const RankedWay& way) {
    return way.possible() && candidates[way.candidate].same_bits;
  };
  const auto fastest = std::ranges::find_if(ranking, may);
  if (fastest == ranking.end()) return;
  const auto most = (1 + kNearly) * static_cast<double>(fastest->estimate->time.total().count());
  const auto plain = std::find_if(fastest, ranking.end(), [&](const RankedWay& way) {
    return may(way) && candidates[way.candidate].plain &&
           static_cast<double>(way.estimate->time.total().count()) <= most;
  });
  if (plain != ranking.end()) std::rotate(fastest, plain, plain + 1);
}

// What of the memory is most.
std::string largest_kind(const MemoryUse& memory) {
  const std::array<std::pair<std::string_view, std::uint64_t>, 7> kinds = {
      {{"weights", memory.weights},
       {"gradients", memory.gradients},
       {"optimizer", memory.optimizer},
       {"activations", memory.activations},
       {"buffers", memory.buffers},
       {"a checkpoint's copy", memory.checkpoint},
       {"libtorch", memory.process}}};
  const auto& most =
      *std::ranges::max_element(kinds, {}, [](const auto& kind) { return kind.second; });
  return fmt::format("{} of it {}", format_bytes(most.second), most.first);
}

std::string too_large(const MemoryUse& memory, std::uint64_t limit) {
  return fmt::format("{} more than a worker may take ({}); {}",
                     format_bytes(memory.total() - limit), format_bytes(limit),
                     largest_kind(memory));
}

// Of one that fits, where times are not known.
std::string by_memory(const RankedWay& way, const RankedWay& best) {
  if (&way == &best) return "needs least memory of those that fit; times were not measured";
  const std::uint64_t more = way.estimate->memory.total() - best.estimate->memory.total();
  return more == 0 ? "as much memory as the first" : format_bytes(more) + " more than the first";
}

// Where most of what it takes longer than the best goes.
std::string against(const StepTime& time, const StepTime& best) {
  const std::array<std::pair<std::string_view, Duration>, 4> parts = {
      {{"computing", time.computing - best.computing},
       {"waiting for other stages", time.waiting - best.waiting},
       {"communication", time.communication - best.communication},
       {"update", time.update - best.update}}};
  const auto& most =
      *std::ranges::max_element(parts, {}, [](const auto& part) { return part.second; });
  const auto ratio = static_cast<double>(time.total().count()) /
                     static_cast<double>(std::max<Duration::rep>(1, best.total().count()));
  if (std::abs(ratio - 1) < 0.005) return "as fast as the best";
  if (ratio < 1) return fmt::format("{:.2f}× the time of the best", ratio);
  return fmt::format("{:.2f}× the time of the best: {} more {}", ratio, time_text(most.second),
                     most.first);
}

std::string why_best(const RankedWay& best, const std::vector<RankedWay>& ranking,
                     const std::vector<Candidate>& candidates) {
  if (!candidates[best.candidate].same_bits)
    return "nothing that leaves the bits as they are fits in memory; this rounds differently";
  const bool overtaken = std::ranges::any_of(ranking, [&](const RankedWay& other) {
    return other.possible() && candidates[other.candidate].same_bits &&
           other.estimate->time.total() < best.estimate->time.total();
  });
  if (!overtaken) return "the fastest that fits in memory";
  return fmt::format("as fast as any within {:.0f} %, and workers may come, go and die",
                     100 * kNearly);
}

// "[plan/estimate] why": the table is place enough.
std::string without_place(const std::string& message) {
  const auto end = message.starts_with('[') ? message.find("] ") : message.npos;
  return end == message.npos ? message : message.substr(end + 2);
}

void give_reasons(std::vector<RankedWay>& ranking, const std::vector<Candidate>& candidates,
                  const Hardware& hardware, bool timed) {
  const RankedWay* best = best_of(ranking, candidates);
  if (!best && !ranking.empty() && ranking.front().possible()) best = &ranking.front();
  for (RankedWay& way : ranking) {
    if (!way.estimate)
      way.reason = without_place(way.estimate.error().message);
    else if (!way.fits)
      way.reason = too_large(way.estimate->memory, hardware.memory);
    else if (!timed)
      way.reason = by_memory(way, ranking.front());
    else if (&way == best)
      way.reason = why_best(way, ranking, candidates);
    else
      way.reason = against(way.estimate->time, best->estimate->time);
    if (way.possible() && &way != best && candidates[way.candidate].last_resort)
      way.reason += "; rounds differently";
  }
}

}  // namespace

std::vector<RankedWay> rank_ways(const ModelProfile& profile,
                                 const std::vector<Candidate>& candidates,
                                 const Hardware& hardware) {
  std::vector<RankedWay> ranking;
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    const Result<Way>& way = candidates[c].way;
    RankedWay ranked{.candidate = c,
                     .estimate = way ? estimate(profile, *way, hardware)
                                     : Result<Estimate>(tl::unexpected(way.error())),
                     .reason = {}};
    ranked.fits = ranked.estimate && ranked.estimate->memory.total() <= hardware.memory;
    ranking.push_back(std::move(ranked));
  }
  const bool timed = !profile.counted();
  std::ranges::stable_sort(
      ranking, [&](const RankedWay& a, const RankedWay& b) { return before(a, b, timed); });
  if (timed) prefer_plain(ranking, candidates);
  give_reasons(ranking, candidates, hardware, timed);
  return ranking;
}

const RankedWay* best_of(const std::vector<RankedWay>& ranking,
                         const std::vector<Candidate>& candidates) noexcept {
  for (const RankedWay& way : ranking)
    if (way.possible() && candidates[way.candidate].same_bits) return &way;
  for (const RankedWay& way : ranking)
    if (way.possible() && candidates[way.candidate].last_resort) return &way;
  return nullptr;
}

}  // namespace muster::plan
