#include "muster/train/replicas.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "muster/base/checksum.h"

namespace muster::train {

std::uint64_t state_checksum(parallel::Strategy& strategy) {
  Checksum sum;
  for (const parallel::StateSlice& slice : strategy.replicated_state()) sum.add(slice.tensor.bytes);
  return sum.value();
}

Result<std::vector<ReplicaReport>> exchange_reports(comm::Communicator& communicator,
                                                    const ReplicaReport& mine,
                                                    const comm::OpOptions& options) {
  constexpr std::int64_t kNever = -1;
  std::array<std::int64_t, 3> own{std::bit_cast<std::int64_t>(mine.sum), mine.guilty ? 1 : 0,
                                  mine.verified ? to_int(*mine.verified) : kNever};
  std::vector<std::int64_t> all(own.size() * static_cast<std::size_t>(communicator.group().size));
  MUSTER_TRY(communicator
                 .submit(comm::AllGather{.output = view_of(std::span(all)),
                                         .input = view_of(std::span<std::int64_t>(own))},
                         options)
                 .wait());
  std::vector<ReplicaReport> reports;
  for (std::size_t at = 0; at < all.size(); at += own.size()) {
    ReplicaReport report{.sum = std::bit_cast<std::uint64_t>(all[at]), .guilty = all[at + 1] != 0};
    if (all[at + 2] != kNever) report.verified = Step{all[at + 2]};
    reports.push_back(report);
  }
  return reports;
}

std::optional<std::vector<Rank>> odd_ones_out(const std::vector<ReplicaReport>& reports) {
  std::vector<Rank> odd;
  const auto collect = [&](const auto& is_odd) {
    for (std::size_t rank = 0; rank < reports.size(); ++rank)
      if (is_odd(reports[rank])) odd.push_back(Rank{static_cast<std::int32_t>(rank)});
  };
  collect([](const ReplicaReport& report) { return report.guilty; });
  if (!odd.empty()) return odd;
  std::vector<std::uint64_t> sorted(reports.size());
  std::ranges::transform(reports, sorted.begin(), &ReplicaReport::sum);
  std::ranges::sort(sorted);
  const std::uint64_t middle = sorted[sorted.size() / 2];  // a majority has it, if there is one
  collect([&](const ReplicaReport& report) { return report.sum != middle; });
  if (2 * odd.size() >= reports.size()) return std::nullopt;
  return odd;
}

}  // namespace muster::train
