#include "muster/train/gradient_dispute.h"

#include <algorithm>
#include <utility>

namespace muster::train {
namespace {

// A fault that comes again and again is no accident.
constexpr int kMostAttempts = 4;

bool have_one_sum(const std::vector<ReplicaReport>& reports) {
  return std::ranges::all_of(
      reports, [&](const ReplicaReport& report) { return report.sum == reports.front().sum; });
}

// Where all came to another result, none of them is to blame: it was the first one that was wrong
// for all, or fast mode, whose bits come as they will.
std::vector<Rank> those_who_changed(const std::vector<ReplicaReport>& reports) {
  std::vector<Rank> changed;
  for (std::size_t rank = 0; rank < reports.size(); ++rank)
    if (reports[rank].guilty) changed.push_back(Rank{static_cast<std::int32_t>(rank)});
  if (changed.size() == reports.size()) changed.clear();
  return changed;
}

}  // namespace

ReplicaReport GradientDispute::report(Step step, std::uint64_t checksum) const {
  return {.sum = {.shared = checksum},
          .guilty = before_ && before_->step == step && before_->checksum != checksum};
}

GradientDispute::Ruling GradientDispute::judge(Step step, std::uint64_t checksum,
                                               const std::vector<ReplicaReport>& reports) {
  if (have_one_sum(reports)) {
    before_.reset();
    auto changed = those_who_changed(reports);
    const Verdict verdict = changed.empty() ? Verdict::kSame : Verdict::kNamed;
    return {verdict, std::move(changed)};
  }
  again_ = true;
  std::vector<ReplicaReport> sums = reports;  // who changed may be right now
  for (ReplicaReport& report : sums) report.guilty = false;
  if (auto odd = odd_ones_out(sums)) {
    before_.reset();
    return {Verdict::kGoes, *std::move(odd)};
  }
  if (!before_ || before_->step != step) before_ = Attempt{step, checksum, 0};
  again_ = ++before_->count < kMostAttempts;
  return {again_ ? Verdict::kAgain : Verdict::kHopeless};
}

bool GradientDispute::takes_again() noexcept { return std::exchange(again_, false); }

}  // namespace muster::train
