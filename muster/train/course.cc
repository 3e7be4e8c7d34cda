#include "muster/train/course.h"

#include <algorithm>
#include <span>
#include <tuple>

namespace muster::train {
namespace {

constexpr std::int64_t kNone = -1;

// How far a rank is; a rank without a whole state is nowhere.
auto distance(const Standing& standing) {
  return std::tuple(standing.whole, standing.rollbacks, to_int(standing.committed),
                    standing.done());
}

}  // namespace

std::array<std::int64_t, Standing::kWords> Standing::pack() const noexcept {
  return {to_int(committed),
          settled ? 1 : 0,
          whole ? 1 : 0,
          kept ? to_int(*kept) : kNone,
          static_cast<std::int64_t>(assignment),
          static_cast<std::int64_t>(paces),
          rollbacks,
          idle.count(),
          keeps ? 1 : 0,
          evaluated ? 1 : 0,
          static_cast<std::int64_t>(data)};
}

Standing Standing::unpack(const std::int64_t* words) noexcept {
  Standing standing{Step{words[0]},
                    words[1] != 0,
                    words[2] != 0,
                    std::nullopt,
                    static_cast<std::uint64_t>(words[4]),
                    static_cast<std::uint64_t>(words[5]),
                    words[6],
                    Duration(words[7]),
                    words[8] != 0,
                    words[9] != 0,
                    static_cast<std::uint64_t>(words[10])};
  if (words[3] != kNone) standing.kept = Step{words[3]};
  return standing;
}

Course decide_course(const std::vector<Standing>& standings) {
  const auto first = std::max_element(
      standings.begin(), standings.end(),
      [](const Standing& a, const Standing& b) { return distance(a) < distance(b); });
  if (!first->whole) return {.goes_back = true};
  Course course{.leader = Rank{static_cast<std::int32_t>(first - standings.begin())}};
  // Newcomers come last, but for one that alone sees the run's folder, and so speaks for all.
  const auto newcomers = std::ranges::find(standings, false, &Standing::whole);
  const bool come_last =
      newcomers != standings.begin() &&
      std::ranges::find(newcomers, standings.end(), true, &Standing::whole) == standings.end();
  const std::span old(standings.begin(), come_last ? newcomers : standings.end());
  course.copies = std::any_of(old.begin(), old.end(), [&](const Standing& other) {
    return distance(other) != distance(*first);
  });
  if (course.copies) return course;
  course.newcomers = static_cast<std::int32_t>(standings.size() - old.size());
  const auto can_finish = [&](const Standing& rank) {
    return rank.kept == next(first->committed) && rank.assignment == first->assignment;
  };
  course.finishes =
      course.newcomers == 0 && std::all_of(standings.begin(), standings.end(), can_finish);
  course.forgets = std::any_of(old.begin(), old.end(),
                               [&](const Standing& other) { return other.paces != first->paces; });
  return course;
}

}  // namespace muster::train
