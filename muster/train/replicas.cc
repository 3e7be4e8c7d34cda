#include "muster/train/replicas.h"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <map>
#include <span>
#include <utility>

#include "muster/base/checksum.h"
#include "muster/train/state_pieces.h"

namespace muster::train {
namespace {

Rank rank_of(std::size_t rank) { return Rank{static_cast<std::int32_t>(rank)}; }
std::size_t index_of(Rank rank) { return static_cast<std::size_t>(to_int(rank)); }

std::uint64_t checksum_of_all(const std::vector<parallel::StateSlice>& state) {
  Checksum sum;
  for (const parallel::StateSlice& slice : state) sum.add(slice.tensor.bytes);
  return sum.value();
}

// Those of `ranks` who have another one of these sums than more than half of them.
std::optional<std::vector<Rank>> outside_majority(const std::vector<ReplicaReport>& reports,
                                                  const std::vector<Rank>& ranks,
                                                  std::uint64_t StateChecksum::*which) {
  const auto sum_of = [&](Rank rank) { return reports[index_of(rank)].sum.*which; };
  std::vector<std::uint64_t> sorted(ranks.size());
  std::ranges::transform(ranks, sorted.begin(), sum_of);
  std::ranges::sort(sorted);
  const std::uint64_t middle = sorted[sorted.size() / 2];  // a majority has it, if there is one
  std::vector<Rank> odd;
  std::ranges::copy_if(ranks, std::back_inserter(odd),
                       [&](Rank rank) { return sum_of(rank) != middle; });
  if (2 * odd.size() >= ranks.size()) return std::nullopt;
  return odd;
}

}  // namespace

StateChecksum state_checksum(parallel::Strategy& strategy) {
  return {.shared = checksum_of_all(strategy.replicated_state()),
          .own = checksum_of_all(own_state(strategy))};
}

std::uint64_t guarded_checksum(parallel::Strategy& strategy) {
  std::vector<parallel::StateSlice> guarded = strategy.model_state();
  for (parallel::StateSlice& slice : own_of(strategy.optimizer_state(), strategy))
    guarded.push_back(std::move(slice));
  return checksum_of_all(guarded);
}

Result<std::vector<ReplicaReport>> exchange_reports(comm::Communicator& communicator,
                                                    const ReplicaReport& mine,
                                                    const comm::OpOptions& options) {
  constexpr std::int64_t kNever = -1;
  std::array<std::int64_t, 5> own{std::bit_cast<std::int64_t>(mine.sum.shared),
                                  std::bit_cast<std::int64_t>(mine.sum.own), mine.guilty ? 1 : 0,
                                  mine.verified ? to_int(*mine.verified) : kNever, mine.part};
  std::vector<std::int64_t> all(own.size() * static_cast<std::size_t>(communicator.group().size));
  MUSTER_TRY(communicator
                 .submit(comm::AllGather{.output = view_of(std::span(all)),
                                         .input = view_of(std::span<std::int64_t>(own))},
                         options)
                 .wait());
  std::vector<ReplicaReport> reports;
  for (std::size_t at = 0; at < all.size(); at += own.size()) {
    ReplicaReport report{.sum = {.shared = std::bit_cast<std::uint64_t>(all[at]),
                                 .own = std::bit_cast<std::uint64_t>(all[at + 1])},
                         .guilty = all[at + 2] != 0,
                         .part = static_cast<std::int32_t>(all[at + 4])};
    if (all[at + 3] != kNever) report.verified = Step{all[at + 3]};
    reports.push_back(report);
  }
  return reports;
}

std::optional<std::vector<Rank>> odd_ones_out(const std::vector<ReplicaReport>& reports) {
  std::vector<Rank> all, odd;
  std::map<std::int32_t, std::vector<Rank>> by_part;
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    all.push_back(rank_of(rank));
    by_part[reports[rank].part].push_back(rank_of(rank));
    if (reports[rank].guilty) odd.push_back(rank_of(rank));
  }
  if (!odd.empty()) return odd;
  bool decided = true;
  for (const auto& [part, ranks] : by_part) {
    const auto outside = outside_majority(reports, ranks, &StateChecksum::own);
    decided &= outside.has_value();
    if (outside) odd.insert(odd.end(), outside->begin(), outside->end());
  }
  std::ranges::sort(odd);
  if (!odd.empty()) return odd;
  auto outside = outside_majority(reports, all, &StateChecksum::shared);
  if (decided || (outside && !outside->empty())) return outside;
  return std::nullopt;
}

bool are_equal(const std::vector<ReplicaReport>& reports) {
  const auto odd = odd_ones_out(reports);
  return odd && odd->empty();
}

std::vector<Rank> copied_wrong(const std::vector<ReplicaReport>& reports,
                               const std::vector<Rank>& sources) {
  std::vector<ReplicaReport> before;
  std::vector<Rank> wrong;
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    const ReplicaReport& source = reports[index_of(sources[rank])];
    const bool same_part = source.part == reports[rank].part;
    const bool same = reports[rank].sum.shared == source.sum.shared &&
                      (!same_part || reports[rank].sum.own == source.sum.own);
    if (sources[rank] == rank_of(rank))
      before.push_back(reports[rank]);
    else if (!same)
      wrong.push_back(rank_of(rank));
  }
  if (!are_equal(before)) return {};
  return wrong;
}

}  // namespace muster::train
