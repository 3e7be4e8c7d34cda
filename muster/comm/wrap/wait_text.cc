#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ranges>
#include <set>

#include "muster/base/units.h"
#include "muster/comm/wrap/wait_graph.h"

namespace muster::comm {
namespace {

constexpr std::size_t kMostChains = 8;  // in one text; of more only how many ranks are in them

std::string reason_of(const Wait& wait) {
  if (wait.kind == Wait::Kind::kCollective) return describe(wait.call);
  if (wait.call.label.empty()) return wait.call.op;
  return fmt::format("{}, {}", wait.kind == Wait::Kind::kSend ? "send" : "receive",
                     wait.call.label);
}

std::string waited_of(const Wait& wait) {
  return format_duration(wait.call.waited.value_or(Duration::zero()));
}

// Each rank of the waits once, in chains from those for whom nobody waits; the longest first.
class Chains {
 public:
  Chains(const WaitFinding& finding, const RankWording& names) : finding_(finding), names_(names) {
    for (const Wait& wait : finding.waits) {
      by_rank_[wait.from] = &wait;
      waited_for_.insert(wait.to);
    }
  }

  std::string text() {
    std::string text;
    std::size_t chains = 0;
    for (const Wait& wait : finding_.waits | std::views::reverse) {
      if (waited_for_.contains(wait.from)) continue;
      if (++chains > kMostChains) break;
      text += (text.empty() ? "" : "; ") + chain(wait);
    }
    const std::size_t untold = finding_.waits.size() - told_.size();
    if (untold > 0) text += fmt::format("; {} more wait for these", untold);
    return text;
  }

 private:
  std::string chain(const Wait& first) {
    std::string text = fmt::format("{} has waited {} for {} ({})", names_.one(first.from),
                                   waited_of(first), names_.one(first.to), reason_of(first));
    told_.insert(first.from);
    for (Rank rank = first.to; !told_.contains(rank);) {
      const auto next = by_rank_.find(rank);
      if (next == by_rank_.end()) return text + end();
      const Wait& wait = *next->second;
      text += fmt::format(", which waits for {} ({})", names_.one(wait.to), reason_of(wait));
      told_.insert(rank);
      rank = wait.to;
    }
    return text;
  }

  // What is said of whoever waits for nobody is said once.
  std::string end() {
    if (ended_ || finding_.state.empty() || !finding_.cycle.empty()) return "";
    ended_ = true;
    return ", which " + finding_.state;
  }

  const WaitFinding& finding_;
  const RankWording& names_;
  std::map<Rank, const Wait*> by_rank_;
  std::set<Rank> waited_for_;
  std::set<Rank> told_;
  bool ended_ = false;
};

std::string cycle_text(const WaitFinding& finding, const RankWording& names) {
  if (finding.cycle.empty()) return "";
  if (finding.kind == WaitFinding::Kind::kAllIn) {
    const Wait& wait = finding.cycle.front();
    return fmt::format("{} have all been in {} for {}: {}", names.list(finding.ranks),
                       describe(wait.call), waited_of(wait), finding.state);
  }
  std::string text = "deadlock: ";
  for (const Wait& wait : finding.cycle) {
    text +=
        fmt::format("{}{} has waited {} for {} ({})", &wait == &finding.cycle.front() ? "" : ", ",
                    names.one(wait.from), waited_of(wait), names.one(wait.to), reason_of(wait));
  }
  return text;
}

}  // namespace

std::string describe(const WaitFinding& finding, const RankWording& names) {
  const std::string cycle = cycle_text(finding, names);
  const std::string chains = Chains(finding, names).text();
  return cycle + (cycle.empty() || chains.empty() ? "" : "; ") + chains;
}

}  // namespace muster::comm
