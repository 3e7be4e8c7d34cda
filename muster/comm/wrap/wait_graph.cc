#include "muster/comm/wrap/wait_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "muster/base/units.h"

namespace muster::comm {
namespace {

// Records are taken within 3 s of each other: what one shows as sent for longer is late at another.
constexpr Duration kOnItsWay = std::chrono::seconds(4);

struct RankNode {
  const FlightRecord* record = nullptr;  // none: it does not answer
  std::vector<Wait> waits = {};
  std::vector<Wait> not_arrived = {};  // waits whose other end has done its part
  struct AllIn {
    const FlightPart* part;
    const FlightCall* call;
    bool of_connections;
  };
  std::vector<AllIn> all_in = {};
  bool gets_on = false;        // what it waits for has come by now, or is on its way
  std::string stands_in = {};  // of a collective that all are in, and where others wait for it

  bool waits_for_nobody() const {
    return waits.empty() && not_arrived.empty() && all_in.empty() && !gets_on;
  }
};

std::size_t node_of(Rank rank) { return static_cast<std::size_t>(to_int(rank)); }
Rank rank_of_node(std::size_t index) { return Rank{static_cast<std::int32_t>(index)}; }

const FlightCall* call_at(const std::vector<FlightCall>& calls, std::uint64_t number) {
  const auto found = std::ranges::find(calls, number, &FlightCall::number);
  return found == calls.end() ? nullptr : &*found;
}

bool is_same_part(const FlightPart& a, const FlightPart& b) {
  return a.id == b.id && a.members == b.members;
}

// Of the collectives of `part`, or of the whole group.
const std::vector<FlightCall>& calls_of(const FlightRecord& record, const FlightPart* part) {
  static const std::vector<FlightCall> kNone;
  if (part == nullptr) return record.calls;
  const auto found = std::ranges::find_if(
      record.parts, [&](const FlightPart& other) { return is_same_part(other, *part); });
  return found == record.parts.end() ? kNone : found->calls;
}

// What the other end of `message`, which is rank `own`'s, has made of it: its own side, or a later
// one of the stream where that is all that is left. None: it has not come to it.
const FlightMessage* other_end(const FlightRecord& peer, const FlightMessage& message, Rank own) {
  const FlightMessage* first = nullptr;
  for (const FlightMessage& other : peer.messages) {
    const bool same = other.sends != message.sends && other.peer == own &&
                      other.tag == message.tag && other.part == message.part;
    if (!same || other.call.number < message.call.number) continue;
    if (first == nullptr || other.call.number < first->call.number) first = &other;
  }
  return first;
}

class WaitGraph {
 public:
  explicit WaitGraph(const std::vector<FlightRecord>& records);
  std::vector<WaitFinding> findings() const;

 private:
  void find_waits(Rank rank);
  void wait_in(Rank rank, const FlightPart* part, const FlightCall& call);
  void wait_inside(Rank rank, const FlightPart& part,
                   const std::map<Rank, const FlightCall*>& calls);
  void wait_for(Rank rank, const FlightMessage& message);
  void link();

  void add_deadlocks(std::vector<WaitFinding>& findings) const;
  void add_all_in(std::vector<WaitFinding>& findings) const;
  void add_not_arrived(std::vector<WaitFinding>& findings) const;
  void add_culprits(std::vector<WaitFinding>& findings) const;
  std::vector<bool> on_cycles() const;
  std::vector<Rank> connected(std::size_t begin, std::vector<bool>& among) const;
  std::vector<Wait> within(const std::vector<Rank>& ranks) const;
  std::vector<Wait> leading_to(std::vector<Rank> targets) const;

  std::vector<RankNode> nodes_;                     // by rank
  std::vector<std::vector<const Wait*>> incoming_;  // by rank
};

WaitGraph::WaitGraph(const std::vector<FlightRecord>& records) {
  const auto newest = newest_records(records);
  for (const FlightRecord* record : newest) {
    const auto least = std::max(record->size, to_int(record->rank) + 1);
    nodes_.resize(std::max(nodes_.size(), static_cast<std::size_t>(least)));
    nodes_[node_of(record->rank)].record = record;
  }
  for (const FlightRecord* record : newest) find_waits(record->rank);
  // Who has not come to the newest generation, or to any operation, answers nevertheless. After the
  // waits are found: the numbers of its operations are those of another generation.
  for (const FlightRecord& record : records) {
    const std::size_t node = node_of(record.rank);
    if (node < nodes_.size() && nodes_[node].record == nullptr) nodes_[node].record = &record;
  }
  link();
}

void WaitGraph::find_waits(Rank rank) {
  const FlightRecord& record = *nodes_[node_of(rank)].record;
  if (!std::ranges::all_of(record.passes, &FlightPass::waits)) return;
  for (const FlightCall& call : record.calls)
    if (is_awaited(call)) wait_in(rank, nullptr, call);
  for (const FlightPart& part : record.parts)
    for (const FlightCall& call : part.calls)
      if (is_awaited(call)) wait_in(rank, &part, call);
  for (const FlightMessage& message : record.messages)
    if (is_awaited(message.call) && node_of(message.peer) < nodes_.size()) wait_for(rank, message);
}

void WaitGraph::wait_in(Rank rank, const FlightPart* part, const FlightCall& call) {
  RankNode& node = nodes_[node_of(rank)];
  bool missing = false;
  bool over = false;
  std::map<Rank, const FlightCall*> calls_of_all{{rank, &call}};
  for (std::size_t other = 0; other < nodes_.size(); ++other) {
    const Rank member = rank_of_node(other);
    if (member == rank || (part != nullptr && !std::ranges::count(part->members, member))) continue;
    const FlightRecord* record = nodes_[other].record;
    const auto* calls = record == nullptr ? nullptr : &calls_of(*record, part);
    if (calls == nullptr || calls->empty() || calls->back().number < call.number) {
      node.waits.push_back({rank, member, Wait::Kind::kCollective, part == nullptr, call});
      missing = true;
      continue;
    }
    const FlightCall* theirs = call_at(*calls, call.number);
    over = over || theirs == nullptr || !is_unfinished(*theirs);
    calls_of_all.emplace(member, theirs);
  }
  if (missing) return;
  if (over || part == nullptr)
    node.gets_on = true;  // of the whole group analyse() tells
  else
    wait_inside(rank, *part, calls_of_all);
}

// All of the part are in it.
void WaitGraph::wait_inside(Rank rank, const FlightPart& part,
                            const std::map<Rank, const FlightCall*>& calls) {
  RankNode& node = nodes_[node_of(rank)];
  const FlightCall& call = *calls.at(rank);
  const InsideOf inside = look_inside(calls);
  if (inside.gets_on) {
    node.gets_on = true;
  } else if (inside.ranks.empty()) {
    node.all_in.push_back({&part, &call, inside.of_connections});
  } else if (std::ranges::count(inside.ranks, rank) > 0) {
    node.stands_in = describe(call);
  } else {
    for (const Rank other : inside.ranks)
      node.waits.push_back({rank, other, Wait::Kind::kCollective, false, call});
  }
}

void WaitGraph::wait_for(Rank rank, const FlightMessage& message) {
  RankNode& node = nodes_[node_of(rank)];
  const auto kind = message.sends ? Wait::Kind::kSend : Wait::Kind::kReceive;
  const Wait wait{rank, message.peer, kind, false, message.call};
  const FlightRecord* peer = nodes_[node_of(message.peer)].record;
  const FlightMessage* theirs = peer == nullptr ? nullptr : other_end(*peer, message, rank);
  if (theirs == nullptr) return node.waits.push_back(wait);
  const bool taken = message.sends && !is_unfinished(theirs->call);
  const bool late = std::min(theirs->call.age, *message.call.waited) >= kOnItsWay;
  if (taken || !late)
    node.gets_on = true;
  else
    node.not_arrived.push_back(wait);
}

void WaitGraph::link() {
  incoming_.resize(nodes_.size());
  for (const RankNode& node : nodes_)
    for (const Wait& wait : node.waits) incoming_[node_of(wait.to)].push_back(&wait);
}

// Breadth first, so that each rank is told with the wait that is nearest to them.
std::vector<Wait> WaitGraph::leading_to(std::vector<Rank> targets) const {
  std::vector<bool> seen(nodes_.size());
  for (const Rank target : targets) seen[node_of(target)] = true;
  std::vector<Wait> waits;
  for (std::size_t next = 0; next < targets.size(); ++next) {
    for (const Wait* wait : incoming_[node_of(targets[next])]) {
      if (seen[node_of(wait->from)]) continue;
      seen[node_of(wait->from)] = true;
      waits.push_back(*wait);
      targets.push_back(wait->from);
    }
  }
  return waits;
}

// Without those that wait for nobody, and whoever waits for these alone, over and over, all that is
// left leads into a cycle; without those for whom nobody waits it is on one, or between two.
std::vector<bool> WaitGraph::on_cycles() const {
  std::vector<bool> left(nodes_.size(), true);
  const auto trim = [&](const auto& has_reason) {
    for (bool changed = true; std::exchange(changed, false);) {
      for (std::size_t rank = 0; rank < nodes_.size(); ++rank) {
        if (!left[rank] || has_reason(rank)) continue;
        left[rank] = false;
        changed = true;
      }
    }
  };
  trim([&](std::size_t rank) {
    return std::ranges::any_of(nodes_[rank].waits,
                               [&](const Wait& wait) { return left[node_of(wait.to)]; });
  });
  trim([&](std::size_t rank) {
    return std::ranges::any_of(incoming_[rank],
                               [&](const Wait* wait) { return left[node_of(wait->from)]; });
  });
  return left;
}

// Those that hang together with `begin` by waits, taken out of `among`.
std::vector<Rank> WaitGraph::connected(std::size_t begin, std::vector<bool>& among) const {
  std::vector<Rank> ranks{rank_of_node(begin)};
  among[begin] = false;
  const auto add = [&](Rank rank) {
    if (!among[node_of(rank)]) return;
    among[node_of(rank)] = false;
    ranks.push_back(rank);
  };
  for (std::size_t next = 0; next < ranks.size(); ++next) {
    for (const Wait& wait : nodes_[node_of(ranks[next])].waits) add(wait.to);
    for (const Wait* wait : incoming_[node_of(ranks[next])]) add(wait->from);
  }
  std::ranges::sort(ranks);
  return ranks;
}

std::vector<Wait> WaitGraph::within(const std::vector<Rank>& ranks) const {
  std::vector<Wait> waits;
  for (const Rank rank : ranks)
    for (const Wait& wait : nodes_[node_of(rank)].waits)
      if (std::ranges::binary_search(ranks, wait.to)) waits.push_back(wait);
  return waits;
}

void WaitGraph::add_deadlocks(std::vector<WaitFinding>& findings) const {
  std::vector<bool> left = on_cycles();
  for (std::size_t rank = 0; rank < nodes_.size(); ++rank) {
    if (!left[rank]) continue;
    WaitFinding found{.kind = WaitFinding::Kind::kDeadlock, .ranks = connected(rank, left)};
    found.cycle = within(found.ranks);
    found.waits = leading_to(found.ranks);
    findings.push_back(std::move(found));
  }
}

// Of each collective once: by the lowest of its ranks.
void WaitGraph::add_all_in(std::vector<WaitFinding>& findings) const {
  std::set<std::pair<std::string, std::vector<Rank>>> told;
  for (std::size_t rank = 0; rank < nodes_.size(); ++rank) {
    for (const auto& [part, call, of_connections] : nodes_[rank].all_in) {
      if (!told.emplace(part->id, part->members).second) continue;
      WaitFinding found{.kind = WaitFinding::Kind::kAllIn, .ranks = part->members};
      found.state = reason_of_none(of_connections);
      std::ranges::sort(found.ranks);
      found.cycle.push_back(
          {rank_of_node(rank), found.ranks.back(), Wait::Kind::kCollective, false, *call});
      found.waits = leading_to(found.ranks);
      findings.push_back(std::move(found));
    }
  }
}

void WaitGraph::add_not_arrived(std::vector<WaitFinding>& findings) const {
  for (const RankNode& node : nodes_) {
    for (const Wait& wait : node.not_arrived) {
      WaitFinding found{.kind = WaitFinding::Kind::kNotArrived, .ranks = {wait.to}};
      found.waits = leading_to({wait.from});
      std::erase_if(found.waits, [&](const Wait& other) { return other.from == wait.to; });
      found.waits.insert(found.waits.begin(), wait);
      found.state = wait.kind == Wait::Kind::kSend ? "is ready for it: it does not get there"
                                                   : "has long sent it: it has not arrived";
      findings.push_back(std::move(found));
    }
  }
}

std::string name_of(const FlightMessage& message) {
  if (message.call.label.empty()) return message.call.op;
  return fmt::format("{}, {}", message.sends ? "send" : "receive", message.call.label);
}

// What it was in last, and since when it is out of it.
std::string last_deed(const FlightRecord& record) {
  std::optional<Duration> since;
  std::string what;
  const auto look = [&](const FlightCall& call, const auto& name) {
    if (!call.took || (since && *since <= call.age - *call.took)) return;
    since = call.age - *call.took;
    what = name();
  };
  const auto look_at_all = [&](const std::vector<FlightCall>& calls) {
    for (const FlightCall& call : calls) look(call, [&] { return describe(call); });
  };
  look_at_all(record.calls);
  for (const FlightPart& part : record.parts) look_at_all(part.calls);
  for (const FlightMessage& message : record.messages)
    look(message.call, [&] { return name_of(message); });
  if (!since) return "waits for nobody and has ended no operation";
  return fmt::format("waits for nobody since the end of its last operation ({}), {} ago", what,
                     format_duration(*since));
}

std::string state_of(const FlightRecord* record) {
  if (record == nullptr) return "does not answer";
  const FlightPass* oldest = nullptr;
  for (const FlightPass& pass : record->passes)
    if (!pass.waits && (oldest == nullptr || pass.age > oldest->age)) oldest = &pass;
  if (oldest == nullptr) return last_deed(*record);
  return fmt::format("has been in {} for {}", oldest->what, format_duration(oldest->age));
}

void WaitGraph::add_culprits(std::vector<WaitFinding>& findings) const {
  for (std::size_t rank = 0; rank < nodes_.size(); ++rank) {
    if (incoming_[rank].empty() || !nodes_[rank].waits_for_nobody()) continue;
    const FlightRecord* record = nodes_[rank].record;
    const std::string& stands_in = nodes_[rank].stands_in;
    using enum WaitFinding::Kind;
    findings.push_back({.kind = record == nullptr ? kSilent : kCulprit,
                        .ranks = {rank_of_node(rank)},
                        .waits = leading_to({rank_of_node(rank)}),
                        .state = stands_in.empty()
                                     ? state_of(record)
                                     : fmt::format("is in {} and does not get on", stands_in)});
  }
}

std::vector<WaitFinding> WaitGraph::findings() const {
  std::vector<WaitFinding> findings;
  add_deadlocks(findings);
  add_all_in(findings);
  add_not_arrived(findings);
  add_culprits(findings);
  return findings;
}

bool has_message_or_part(const WaitFinding& finding) {
  const auto of_a_part = [](const Wait& wait) { return !wait.of_all; };
  return std::ranges::any_of(finding.waits, of_a_part) ||
         std::ranges::any_of(finding.cycle, of_a_part);
}

std::set<Rank> waiting_ranks(const std::vector<WaitFinding>& findings) {
  std::set<Rank> waiting;
  for (const WaitFinding& finding : findings) {
    for (const Wait& wait : finding.waits) waiting.insert(wait.from);
    for (const Wait& wait : finding.cycle) waiting.insert(wait.from);
  }
  return waiting;
}

}  // namespace

std::vector<WaitFinding> analyse_waits(const std::vector<FlightRecord>& records) {
  return WaitGraph(records).findings();
}

Duration longest_wait(const WaitFinding& finding) {
  Duration longest{};
  for (const auto& waits : {finding.cycle, finding.waits})
    for (const Wait& wait : waits) longest = std::max(longest, wait.call.waited.value_or(longest));
  return longest;
}

HeldUp find_held_up(const std::vector<FlightRecord>& records) {
  HeldUp found{analyse(records), analyse_waits(records)};
  const auto is_known = [](const WaitFinding& finding) { return !has_message_or_part(finding); };
  std::size_t replaced = 0;
  if (!std::ranges::all_of(found.waits, is_known)) {
    const std::set<Rank> waiting = waiting_ranks(found.waits);
    replaced = std::erase_if(found.calls, [&](const FlightFinding& finding) {
      return finding.kind == FlightFinding::Kind::kMissed &&
             std::ranges::any_of(finding.ranks,
                                 [&](const Rank rank) { return waiting.contains(rank); });
    });
  }
  if (replaced == 0) std::erase_if(found.waits, is_known);
  return found;
}

}  // namespace muster::comm
