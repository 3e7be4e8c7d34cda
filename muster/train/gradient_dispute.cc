#include "muster/train/gradient_dispute.h"

#include <algorithm>
#include <set>
#include <utility>

namespace muster::train {
namespace {

// A fault that comes again and again is no accident.
constexpr int kMostAttempts = 4;

// Where all that have a part came to another result, none of them is to blame: it was the first one
// that was wrong for all, or fast mode, whose bits come as they will.
std::vector<Rank> those_who_changed(const std::vector<ReplicaReport>& reports) {
  std::set<std::int32_t> parts_that_held;  // for somebody
  for (const ReplicaReport& report : reports)
    if (!report.guilty) parts_that_held.insert(report.part);
  std::vector<Rank> changed;
  for (std::size_t rank = 0; rank < reports.size(); ++rank)
    if (reports[rank].guilty && parts_that_held.contains(reports[rank].part))
      changed.push_back(Rank{static_cast<std::int32_t>(rank)});
  return changed;
}

}  // namespace

ReplicaReport GradientDispute::report(Step step, std::uint64_t checksum, std::int32_t part) const {
  return {.sum = {.own = checksum},
          .guilty = before_ && before_->step == step && before_->checksum != checksum,
          .part = part};
}

GradientDispute::Ruling GradientDispute::judge(Step step, std::uint64_t checksum,
                                               const std::vector<ReplicaReport>& reports) {
  std::vector<ReplicaReport> sums = reports;  // who changed may be right now
  for (ReplicaReport& report : sums) report.guilty = false;
  auto odd = odd_ones_out(sums);
  if (odd && odd->empty()) {
    before_.reset();
    auto changed = those_who_changed(reports);
    const Verdict verdict = changed.empty() ? Verdict::kSame : Verdict::kNamed;
    return {verdict, std::move(changed)};
  }
  again_ = true;
  if (odd) {
    before_.reset();
    return {Verdict::kGoes, *std::move(odd)};
  }
  if (!before_ || before_->step != step) before_ = Attempt{step, checksum, 0};
  again_ = ++before_->count < kMostAttempts;
  return {again_ ? Verdict::kAgain : Verdict::kHopeless};
}

bool GradientDispute::takes_again() noexcept { return std::exchange(again_, false); }

}  // namespace muster::train
