// Which schedule an operation gets: the cheapest.

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>

#include "muster/base/round_up.h"
#include "muster/comm/cost.h"
#include "muster/comm/schedule/fold.h"

namespace muster::comm {
namespace {

bool grants(const Method& wish, const Method& method) noexcept {
  const auto fits = [](Algorithm wished, Algorithm is) {
    return wished == Algorithm::kAuto || wished == is;
  };
  if (wish.algorithm != method.algorithm) return wish.algorithm == Algorithm::kAuto;
  return method.algorithm != Algorithm::kHierarchical ||
         (fits(wish.inner, method.inner) && fits(wish.outer, method.outer));
}

// What the wish leaves to choose from; everything where it cannot be granted.
std::vector<Method> candidates(Collective::Kind kind, const Method& wish,
                               const Topology& topology) {
  const std::vector<Method> all = methods_of(kind, topology);
  std::vector<Method> granted;
  std::ranges::copy_if(all, std::back_inserter(granted),
                       [&](const Method& method) { return grants(wish, method); });
  return granted.empty() ? all : granted;
}

}  // namespace

Collective representative(Collective collective) noexcept {
  const int spare = std::bit_width(static_cast<std::uint64_t>(collective.count)) - 3;
  if (spare <= 0) return collective;
  const std::int64_t unit = std::int64_t{1} << spare;
  collective.count = round_up(collective.count, unit);
  return collective;
}

Method choose_method(const Collective& collective, const Method& wish, const Topology& topology,
                     const CostTable& costs) {
  if (collective.ordered) return {Algorithm::kDirect};
  const std::vector<Method> methods = candidates(collective.kind, wish, topology);
  if (methods.size() == 1 || topology.size() == 1) return methods.front();
  Method best = methods.front();
  double least = std::numeric_limits<double>::infinity();
  for (const Method& method : methods) {
    const double seconds =
        price_folded(collective, method, fold_of(collective.kind, method, topology), costs, least);
    if (seconds >= least) continue;
    best = method;
    least = seconds;
  }
  return best;
}

}  // namespace muster::comm
