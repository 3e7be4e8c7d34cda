#include <algorithm>
#include <limits>
#include <queue>
#include <unordered_map>
#include <utility>

#include "muster/base/check.h"
#include "muster/comm/cost.h"
#include "muster/comm/schedule/fold.h"

namespace muster::comm {
namespace {

// A step of a schedule, as far as it takes time.
struct Action {
  enum class Kind : std::uint8_t { kSend, kRecv, kWork };
  Kind kind = Kind::kWork;
  std::int32_t peer = 0;
  double amount = 0;  // bytes; of work: seconds
};

std::vector<Action> actions_of(const Schedule& schedule, double width, const CostTable& costs) {
  std::vector<Action> actions;
  const auto add_work = [&](double seconds) {
    if (actions.empty() || actions.back().kind != Action::Kind::kWork) actions.emplace_back();
    actions.back().amount += seconds;
  };
  for (const ScheduleStep& step : schedule.steps) {
    const auto bytes = [&](const Slice& slice) { return static_cast<double>(slice.count) * width; };
    switch (step.kind) {
      case ScheduleStep::Kind::kSend:
        actions.push_back({Action::Kind::kSend, to_int(step.peer), bytes(step.from)});
        break;
      case ScheduleStep::Kind::kRecv:
        actions.push_back({Action::Kind::kRecv, to_int(step.peer), bytes(step.to)});
        break;
      case ScheduleStep::Kind::kReduce:
        add_work(bytes(step.to) * costs.reduce_per_byte);
        break;
      case ScheduleStep::Kind::kCopy:
        add_work(bytes(step.to) * costs.copy_per_byte);
        break;
    }
  }
  return actions;
}

// Through which messages leave or arrive, one after the other, whoever they are for or from: a
// rank's way to its own host, or a host's to the others.
struct Port {
  double free = 0;          // when it is
  double last = 0;          // seconds of the last message
  std::int32_t source = 0;  // of the last one: how many hosts further on; 0: there was none
};

// The ranks of a Fold, playing. Where they share ports, what comes first is played first.
class Clocks {
 public:
  Clocks(const Fold& fold, const CostTable& costs, const Collective& collective, double width,
         const Method& method)
      : fold_(fold), costs_(costs), inside_(fold.ranks()), between_(fold.ports()) {
    for (std::int32_t rank = 0; rank < fold.ranks(); ++rank)
      ranks_.push_back(
          {actions_of(make_schedule(collective, method, Rank{rank}, fold.topology()), width, costs),
           0, 0});
  }

  double play(double limit) {
    for (std::int32_t rank = 0; rank < fold_.ranks(); ++rank) due_.push({0, rank});
    while (!due_.empty()) {
      const Due due = due_.top();
      due_.pop();
      if (due.at > limit) return std::numeric_limits<double>::infinity();
      advance(due.rank);
    }
    double last = 0;
    for (const Player& player : ranks_) {
      MUSTER_CHECK(player.next == player.actions.size(), "a schedule ends");
      last = std::max(last, player.now);
    }
    return last;
  }

 private:
  struct Player {
    std::vector<Action> actions;
    std::size_t next = 0;
    double now = 0;
  };
  struct Due {
    double at;
    std::int32_t rank;
    bool operator<(const Due& other) const {  // the earliest is the greatest
      return at != other.at ? at > other.at : rank > other.rank;
    }
  };
  struct Message {
    double begins;  // to leave
    double left;
  };
  struct Channel {  // from one rank to another
    std::vector<Message> messages;
    std::size_t taken = 0;
    bool awaited = false;
  };
  struct Ports {
    explicit Ports(std::int32_t count)
        : leaving(static_cast<std::size_t>(count)), arriving(static_cast<std::size_t>(count)) {}
    std::vector<Port> leaving;
    std::vector<Port> arriving;
  };

  // Plays on until the rank waits for a message, or others are to come first.
  void advance(std::int32_t rank) {
    Player& me = ranks_[static_cast<std::size_t>(rank)];
    while (me.next < me.actions.size()) {
      const Action& action = me.actions[me.next];
      double at = me.now;
      if (action.kind == Action::Kind::kRecv) {
        Channel& channel = channel_to(rank, action.peer);
        if (channel.taken == channel.messages.size()) {
          channel.awaited = true;
          return;
        }
        at = std::max(at, channel.messages[channel.taken].begins + link(rank, action.peer).latency);
      }
      if (fold_.shares_ports() && !due_.empty() && at > due_.top().at) return due_.push({at, rank});
      ++me.next;
      if (action.kind == Action::Kind::kWork)
        me.now += action.amount;
      else if (action.kind == Action::Kind::kSend)
        send(me, rank, action);
      else
        recv(me, rank, action);
    }
  }

  void send(Player& me, std::int32_t rank, const Action& action) {
    me.now += costs_.per_message;
    Port& port = port_of(&Ports::leaving, rank, action.peer);
    const double begins = std::max(me.now, port.free);
    port.free = begins + transfer(rank, action);
    Channel& channel = channel_from(rank, action.peer);
    channel.messages.push_back({begins, port.free});
    if (!channel.awaited) return;
    channel.awaited = false;
    const std::int32_t receiver = fold_.played(action.peer);
    const double there = begins + link(rank, action.peer).latency;
    due_.push({std::max(there, ranks_[static_cast<std::size_t>(receiver)].now), receiver});
  }

  void recv(Player& me, std::int32_t rank, const Action& action) {
    Channel& channel = channel_to(rank, action.peer);
    const Message& message = channel.messages[channel.taken++];
    const double latency = link(rank, action.peer).latency;
    Port& port = port_of(&Ports::arriving, rank, action.peer);
    const double alone = transfer(rank, action), arrives = message.begins + latency;
    const double met = meeting(port, host_distance(rank, action.peer), alone, arrives);
    port.free =
        std::max(std::max(arrives, port.free) + alone, message.left + latency) + kMeeting * met;
    port.last = alone;
    me.now = std::max(me.now, port.free) + costs_.per_message;
  }

  // Seconds of a message from `source` that can meet those of another host's before it, from when
  // it arrives. Notes who it is from.
  static double meeting(Port& port, std::int32_t source, double alone, double arrives) {
    const std::int32_t before = std::exchange(port.source, source);
    if (before == 0 || before == source) return 0;
    const double gap = std::max(0.0, arrives - port.free);
    return std::max(0.0, std::min(port.last, alone) - gap);
  }
  // Alike for what a rotation of hosts makes of two; 0: they are one.
  std::int32_t host_distance(std::int32_t rank, std::int32_t peer) const {
    const Topology& topology = fold_.topology();
    const std::int32_t hosts = topology.hosts();
    return (topology.host_of(Rank{peer}) - topology.host_of(Rank{rank}) + hosts) % hosts;
  }

  bool near(std::int32_t rank, std::int32_t peer) const {
    return fold_.topology().share_host(Rank{rank}, Rank{peer});
  }
  const LinkCosts& link(std::int32_t rank, std::int32_t peer) const {
    return near(rank, peer) ? costs_.inside : costs_.between;
  }
  double transfer(std::int32_t rank, const Action& action) const {
    const double alone = action.amount * link(rank, action.peer).per_byte;
    return near(rank, action.peer) ? alone : alone * fold_.sharers(rank);
  }
  Port& port_of(std::vector<Port> Ports::*direction, std::int32_t rank, std::int32_t peer) {
    if (near(rank, peer)) return (inside_.*direction)[static_cast<std::size_t>(rank)];
    return (between_.*direction)[static_cast<std::size_t>(fold_.port(rank))];
  }

  Channel& channel_from(std::int32_t rank, std::int32_t to) {
    return channels_[fold_.channel(rank, to)];
  }
  Channel& channel_to(std::int32_t rank, std::int32_t from) {
    return channels_[fold_.channel(from, rank)];
  }

  const Fold& fold_;
  const CostTable& costs_;
  std::vector<Player> ranks_;
  Ports inside_;   // by rank
  Ports between_;  // by host
  std::priority_queue<Due> due_;
  std::unordered_map<std::uint64_t, Channel> channels_;
};

}  // namespace

CostTable default_costs(Wire wire) noexcept {
  constexpr double kMicro = 1e-6, kNano = 1e-9;
  if (wire == Wire::kMemory)
    return {.inside = {3 * kMicro, 0.1 * kNano},
            .between = {3 * kMicro, 0.1 * kNano},
            .per_message = 0.5 * kMicro,
            .reduce_per_byte = 0.1 * kNano,
            .copy_per_byte = 0.1 * kNano};
  return {.inside = {20 * kMicro, 0.25 * kNano},
          .between = {30 * kMicro, 0.85 * kNano},
          .per_message = 5 * kMicro,
          .reduce_per_byte = 0.1 * kNano,
          .copy_per_byte = 0.1 * kNano};
}

double price(const Collective& collective, const Method& method, const Topology& topology,
             const CostTable& costs) {
  MUSTER_CHECK(!collective.ordered, "what a sum along a tree takes depends on the tree");
  return price_folded(collective, method, fold_of(collective.kind, method, topology), costs);
}

double price_folded(const Collective& collective, const Method& method, const Fold& fold,
                    const CostTable& costs, double limit) {
  Collective even = collective;
  double width = static_cast<double>(collective.width);
  const std::int32_t size = fold.topology().size();
  // Who stands for others sends and receives blocks of one size, of smaller elements if need be.
  if (fold.ranks() < size && collective.count % size != 0) {
    even.count = (collective.count / size + 1) * size;
    width *= static_cast<double>(collective.count) / static_cast<double>(even.count);
  }
  return Clocks(fold, costs, even, width, method).play(limit);
}

}  // namespace muster::comm
