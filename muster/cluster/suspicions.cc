#include "muster/cluster/suspicions.h"

#include <utility>

namespace muster::cluster {

Suspicions::Suspicions(Duration patience, Duration calm) : patience_(patience), calm_(calm) {}

void Suspicions::accuse(std::int32_t accuser, std::optional<std::int32_t> accused, TimePoint now) {
  if (!first_) {
    first_ = now;
    if (now - began_ > calm_) tried_again_ = false;
  }
  if (accused && *accused != accuser) accusers_[*accused].insert(accuser);
}

void Suspicions::on_generation(TimePoint now) {
  began_ = now;
  first_.reset();
  accusers_.clear();
}

void Suspicions::excuse() noexcept { tried_again_ = false; }

TimePoint Suspicions::due() const noexcept {
  return first_ ? *first_ + patience_ : TimePoint::max();
}

std::optional<std::int32_t> Suspicions::rule(const std::vector<std::int32_t>& members) {
  first_.reset();
  if (!std::exchange(tried_again_, true)) return std::nullopt;
  std::optional<std::int32_t> most;
  std::size_t count = 0;
  for (const std::int32_t worker : members) {
    const auto found = accusers_.find(worker);
    if (found == accusers_.end() || found->second.size() < count) continue;
    most = worker;
    count = found->second.size();
  }
  return most;
}

}  // namespace muster::cluster
