#include "muster/checkpoint/best.h"

#include <nlohmann/json.hpp>
#include <ranges>
#include <string>

namespace muster::checkpoint {
namespace {

struct Memory {
  std::optional<Step> best;
  std::string metric;  // empty: the state does not say
};

// A state may be anybody's, so its words may mean something else.
Memory memory_of(std::string_view state) {
  const auto object = nlohmann::json::parse(state, nullptr, false);
  if (!object.is_object()) return {};
  Memory memory;
  const auto step = object.find("best_step");
  if (step != object.end() && step->is_number_integer())
    memory.best = Step{step->get<std::int64_t>()};
  const auto metric = object.find("best_metric");
  if (metric != object.end() && metric->is_string()) memory.metric = metric->get<std::string>();
  return memory;
}

// Values of different metrics cannot be compared.
bool may_be_of_one_metric(const Memory& a, const Memory& b) {
  return a.metric.empty() || b.metric.empty() || a.metric == b.metric;
}

}  // namespace

std::optional<Step> remembered_best(std::string_view state) { return memory_of(state).best; }

std::string_view newest_state(const std::vector<Found>& all) {
  for (const Found& found : std::views::reverse(all))
    if (found.manifest) return found.manifest->state;
  return {};
}

const Found* find_best(const std::vector<Found>& all, std::string_view state) {
  const Memory wanted = memory_of(state);
  if (!wanted.best) return nullptr;
  if (const Found* found = last_whole(all, *wanted.best)) return found;
  for (const Found& found : std::views::reverse(all)) {
    if (found.name.step > *wanted.best || &found != last_whole(all, found.name.step)) continue;
    const Memory own = memory_of(found.manifest->state);
    if (own.best == found.name.step && may_be_of_one_metric(own, wanted)) return &found;
  }
  return nullptr;
}

}  // namespace muster::checkpoint
