#include "muster/observe/sinks/console/recoveries.h"

#include <algorithm>
#include <utility>

namespace muster::observe {
namespace {

// For longer a person wonders why nothing happens.
constexpr Duration kHeldBackAtMost = std::chrono::seconds(5);

using Turn = RecoveryPart::Turn;

}  // namespace

Recoveries::Recoveries(std::shared_ptr<Sink> behind, const Clock& clock)
    : behind_(std::move(behind)), clock_(clock) {}

void Recoveries::take(const Record& record) noexcept {
  const std::lock_guard lock(mutex_);
  const auto* notice = std::get_if<Notice>(&record);
  if (notice != nullptr && holds_back(*notice)) return;
  const bool fails = notice != nullptr && notice->severity == Severity::kError;
  if (fails || std::holds_alternative<RunEnded>(record)) tell_held();
  behind_->take(record);
}

void Recoveries::tell_late() noexcept {
  const std::lock_guard lock(mutex_);
  if (!held_.empty() && clock_.now() - held_since_ > kHeldBackAtMost) tell_held();
}

bool Recoveries::holds_back(const Notice& notice) {
  if (!notice.recovery) return false;
  const RecoveryPart& part = *notice.recovery;
  switch (part.turn) {
    case Turn::kLost:
      forget(part.workers);
      fold_into_one("");  // the generation to come is that of this one
      held_since_ = clock_.now();
      return hold(notice);
    case Turn::kStarted:
      if (!held_.empty() && held_.front().recovery->workers == part.workers) return hold(notice);
      forget(part.workers);
      return false;
    case Turn::kStands:
      return fold_into_one(notice.text) || are_expected(part.workers);
    case Turn::kEntered: {
      const bool were = are_expected(part.workers);
      forget(part.workers);
      return were;
    }
    case Turn::kWentBack:
      tell_held();
      expected_.clear();
      break;
  }
  return false;
}

bool Recoveries::hold(const Notice& notice) {
  held_.push_back(notice);
  return true;
}

// Whether there was something to tell. `stands`: what is told of the generation.
bool Recoveries::fold_into_one(const std::string& stands) {
  if (held_.empty()) return false;
  Notice one{held_.front().severity, held_.front().recovery->brief};
  if (!stands.empty()) one.text += "; " + stands;
  for (std::size_t at = 1; at < held_.size(); ++at) {
    one.text += "; " + held_[at].recovery->brief;
    expected_.insert(held_[at].recovery->workers.begin(), held_[at].recovery->workers.end());
  }
  held_.clear();
  behind_->take(one);
  return true;
}

bool Recoveries::are_expected(const std::vector<std::int32_t>& workers) const {
  return !workers.empty() && std::ranges::all_of(workers, [this](std::int32_t worker) {
    return expected_.contains(worker);
  });
}

void Recoveries::forget(const std::vector<std::int32_t>& workers) {
  for (const std::int32_t worker : workers) expected_.erase(worker);
}

void Recoveries::tell_held() {
  for (const Notice& notice : std::exchange(held_, {})) behind_->take(notice);
}

}  // namespace muster::observe
