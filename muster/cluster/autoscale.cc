#include "muster/cluster/autoscale.h"

#include <fmt/format.h>

namespace muster::cluster {
namespace {

constexpr double kFresh = 0.5;  // weight of the newest rate

}  // namespace

ThroughputRule::ThroughputRule(double min_gain, int again) : min_gain_(min_gain), again_(again) {}

ScaleWish ThroughputRule::operator()(const ScaleView& view) {
  ++questions_;
  const std::int32_t now = view.workers;
  if (!view.steady || view.rate <= 0) return {now, "the workers have just changed"};
  double& rate = rates_.try_emplace(now, view.rate).first->second;
  rate += kFresh * (view.rate - rate);
  const auto fewer = rates_.find(now - 1);
  if (fewer != rates_.end() && now > view.least) {
    const double mean = fewer->second / (now - 1);
    const double gain = (rate - fewer->second) / mean;
    if (gain < min_gain_) {
      given_up_[now] = questions_;
      return {now - 1, fmt::format("worker number {} adds {:.0f} % of what the others give", now,
                                   100 * gain)};
    }
  }
  const auto refused = given_up_.find(now + 1);
  const bool may_try = refused == given_up_.end() || questions_ - refused->second >= again_;
  if (now < view.most && may_try)
    return {now + 1, fmt::format("{} give {:.3g} steps a second; trying one more", now, rate)};
  return {now, "more do not pay"};
}

}  // namespace muster::cluster
