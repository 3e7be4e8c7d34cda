#include "muster/comm/wrap/flight_analysis.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "muster/base/units.h"

namespace muster::comm {
namespace {

using Records = std::vector<const FlightRecord*>;

const FlightCall* find(const FlightRecord& record, std::uint64_t number) {
  const auto found = std::ranges::find(record.calls, number, &FlightCall::number);
  return found == record.calls.end() ? nullptr : &*found;
}

std::uint64_t last_number(const FlightRecord& record) {
  return record.calls.empty() ? 0 : record.calls.back().number;
}

// The lowest number that somebody waits in; 0: nobody does.
std::uint64_t first_waited_in(const Records& records) {
  std::uint64_t first = 0;
  for (const FlightRecord* record : records) {
    const auto call = std::ranges::find_if(record->calls, is_unfinished);
    if (call != record->calls.end() && (first == 0 || call->number < first)) first = call->number;
  }
  return first;
}

// Who is in call `number`, and since when at the longest.
FlightFinding waiting_in(const Records& records, std::uint64_t number) {
  FlightFinding finding;
  for (const FlightRecord* record : records) {
    const FlightCall* call = find(*record, number);
    if (call == nullptr || !is_unfinished(*call)) continue;
    if (finding.waiting.empty() || call->age > finding.call.age) finding.call = *call;
    finding.waiting.push_back(record->rank);
  }
  return finding;
}

// Since the last one came to it all have been there: until then it was that one who was waited for.
std::optional<FlightFinding> all_in(const Records& records, std::uint64_t number) {
  std::map<Rank, const FlightCall*> calls;
  for (const FlightRecord* record : records) calls.emplace(record->rank, find(*record, number));
  InsideOf inside = look_inside(calls);
  if (inside.gets_on) return std::nullopt;
  FlightFinding finding{.kind = inside.ranks.empty() ? FlightFinding::Kind::kNoProgress
                                                     : FlightFinding::Kind::kStandsStill,
                        .call = *calls.begin()->second,
                        .ranks = std::move(inside.ranks),
                        .of_connections = inside.of_connections};
  for (const auto& [rank, call] : calls) {
    finding.waiting.push_back(rank);
    if (call->age < finding.call.age) finding.call = *call;
  }
  return finding;
}

std::vector<Rank> silent_ranks(const Records& records) {
  std::vector<Rank> silent;
  for (std::int32_t rank = 0; rank < records.front()->size; ++rank)
    if (std::ranges::find(records, Rank{rank}, &FlightRecord::rank) == records.end())
      silent.push_back(Rank{rank});
  return silent;
}

// The first call that two ranks both still remember and that differs.
std::optional<FlightFinding> find_difference(const Records& records) {
  std::map<std::uint64_t, const FlightRecord*> first_to_call;
  std::optional<FlightFinding> found;
  for (const FlightRecord* record : records) {
    for (const FlightCall& call : record->calls) {
      const FlightRecord* other = first_to_call.emplace(call.number, record).first->second;
      const FlightCall& theirs = *find(*other, call.number);
      if (theirs.op == call.op || (found && found->call.number <= call.number)) continue;
      found = FlightFinding{.kind = FlightFinding::Kind::kDiffers,
                            .call = theirs,
                            .ranks = {record->rank},
                            .waiting = {other->rank},
                            .other = call.op};
      break;
    }
  }
  return found;
}

}  // namespace

bool is_unfinished(const FlightCall& call) { return !call.took || call.failed; }

bool is_awaited(const FlightCall& call) { return is_unfinished(call) && call.waited; }

std::vector<const FlightRecord*> newest_records(const std::vector<FlightRecord>& records) {
  Generation newest{0};
  for (const FlightRecord& record : records) newest = std::max(newest, record.generation);
  Records chosen;
  for (const FlightRecord& record : records)
    if (record.generation == newest) chosen.push_back(&record);
  std::ranges::sort(chosen, {}, &FlightRecord::rank);
  return chosen;
}

std::vector<FlightFinding> analyse(const std::vector<FlightRecord>& records) {
  const Records newest = newest_records(records);
  std::vector<FlightFinding> findings;
  if (auto difference = find_difference(newest)) findings.push_back(std::move(*difference));
  const std::uint64_t number = first_waited_in(newest);
  if (number == 0) return findings;
  FlightFinding finding = waiting_in(newest, number);
  for (const FlightRecord* record : newest)
    if (last_number(*record) < number) finding.ranks.push_back(record->rank);
  if (finding.ranks.empty()) {
    if (finding.waiting.size() < newest.size()) return findings;  // it is on its way
    finding.ranks = silent_ranks(newest);
    finding.kind = FlightFinding::Kind::kSilent;
    if (finding.ranks.empty()) {
      if (auto inside = all_in(newest, number)) findings.push_back(std::move(*inside));
      return findings;
    }
  }
  findings.push_back(std::move(finding));
  return findings;
}

// Of whom nothing is known as it waits for nobody: the others may know that they wait for it.
InsideOf look_inside(const std::map<Rank, const FlightCall*>& calls) {
  InsideOf inside;
  std::set<Rank> awaited;
  std::size_t known = 0;
  for (const auto& [rank, call] : calls) {
    if (!call->waits_for) continue;
    ++known;
    awaited.insert(call->waits_for->ranks.begin(), call->waits_for->ranks.end());
    inside.of_connections = call->waits_for->over == Awaited::Over::kConnections;
  }
  for (const auto& [rank, call] : calls)
    if (call->waits_for ? call->waits_for->ranks.empty() : awaited.contains(rank))
      inside.ranks.push_back(rank);
  const bool all_wait = known == calls.size() && inside.ranks.empty();
  inside.gets_on = all_wait && !inside.of_connections;
  inside.of_connections = inside.of_connections && all_wait;
  if (inside.ranks.size() == calls.size()) inside.ranks.clear();
  return inside;
}

RankWording::RankWording(std::string_view word, std::map<Rank, std::int32_t> numbers)
    : word_(word), numbers_(std::move(numbers)) {}

std::string RankWording::list(const std::vector<Rank>& ranks) const {
  const bool has_numbers =
      std::ranges::all_of(ranks, [this](const Rank rank) { return numbers_.contains(rank); });
  std::vector<std::int32_t> shown;
  shown.reserve(ranks.size());
  for (const Rank rank : ranks) shown.push_back(has_numbers ? numbers_.at(rank) : to_int(rank));
  std::ranges::sort(shown);
  return fmt::format("{}{} {}", has_numbers ? word_ : "rank", shown.size() == 1 ? "" : "s",
                     fmt::join(shown, ", "));
}

std::string RankWording::all() const { return fmt::format("all {}s", word_); }

std::string describe(const FlightCall& call) {
  return fmt::format("{}{}, #{}", call.op,
                     call.label.empty() ? "" : fmt::format(" ({})", call.label), call.number);
}

std::string_view reason_of_none(bool of_connections) {
  return of_connections ? "the connections between them carry nothing" : "none of them gets on";
}

std::string describe(const FlightFinding& finding, Generation generation,
                     const RankWording& names) {
  const FlightCall& call = finding.call;
  const std::string what = fmt::format("{} of generation {}", describe(call), to_int(generation));
  const bool one = finding.waiting.size() == 1;
  const std::string time = format_duration(call.took.value_or(call.age));
  const std::string waiting = fmt::format("{} {} waited {} in {}", names.list(finding.waiting),
                                          one ? "has" : "have", time, what);
  switch (finding.kind) {
    case FlightFinding::Kind::kSilent:
      return fmt::format("{}; {} not answer", waiting,
                         names.list(finding.ranks) + (finding.ranks.size() == 1 ? " does" : " do"));
    case FlightFinding::Kind::kDiffers:
      return fmt::format(
          "{} called {} where {} called {}: {} must call the same operations in the same order",
          names.list(finding.waiting), what, names.list(finding.ranks), finding.other, names.all());
    case FlightFinding::Kind::kStandsStill:
      return fmt::format(
          "{} have been in {} for {}, and the others wait for {}, which {} not get on", names.all(),
          what, time, names.list(finding.ranks), finding.ranks.size() == 1 ? "does" : "do");
    case FlightFinding::Kind::kNoProgress:
      return fmt::format("{} have been in {} for {}: {}", names.all(), what, time,
                         reason_of_none(finding.of_connections));
    case FlightFinding::Kind::kMissed:
      break;
  }
  return fmt::format("{}, which {} not called", waiting,
                     names.list(finding.ranks) + (finding.ranks.size() == 1 ? " has" : " have"));
}

}  // namespace muster::comm
