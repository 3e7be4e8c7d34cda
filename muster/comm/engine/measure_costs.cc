#include "muster/comm/engine/measure_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <limits>

#include "muster/base/units.h"
#include "muster/comm/reduce.h"

namespace muster::comm {
namespace {

// This rank's messages with one other. Collectives count from 1, and the first message of each is
// signed: these are none of them.
class TransportLine final : public TimedLine {
 public:
  TransportLine(Transport& transport, const MeasureOptions& options, Rank peer, Deadline deadline)
      : transport_(transport), options_(options), peer_(peer), deadline_(deadline) {}

  Rank peer() const noexcept override { return peer_; }
  const Group& group() const noexcept override { return options_.group; }

  Status send(std::span<std::byte> bytes) override {
    return let_go(transport_.post(peer_, {0, ++sent_}, bytes));
  }
  Status settle() override { return let_go(transport_.settle(deadline_)); }
  Status take(std::span<std::byte> into) override { return let_go(await(into)); }

  Status go_on() const override {
    if (options_.cancelled && options_.cancelled())
      return muster::fail(ErrorCode::kStale, "[comm/costs] the generation has ended", peer_);
    return deadline_.passed(transport_.inbox().clock()) ? missed() : ok();
  }

 private:
  // Whoever measures goes on without settling, and with it what is being sent: the group has
  // failed.
  Status let_go(Status outcome) {
    if (outcome) return outcome;
    transport_.fail(outcome.error());
    transport_.drain();
    return outcome;
  }

  Status await(std::span<std::byte> into) {
    Inbox& inbox = transport_.inbox();
    const MessageId id{0, ++received_};
    for (;;) {
      const Deadline soon(std::min(deadline_.at(), inbox.clock().now() + kAskEvery));
      Status taken = inbox.take(peer_, id, into, soon);
      // Another one's news of a time-out comes before this one's time is up.
      const bool nothing_came = !taken && taken.error().code == ErrorCode::kTimeout;
      if (!nothing_came || !soon.passed(inbox.clock())) return taken;
      MUSTER_TRY(go_on());
    }
  }

  // The peer may itself wait for somebody: who answers no probe either is the one.
  Status missed() const {
    const auto silent = transport_.missing(0);
    const Rank who = silent.empty() ? peer_ : silent.front();
    return muster::fail(
        ErrorCode::kTimeout,
        fmt::format("[comm/costs] rank {} does not answer while rank {} and others measure their "
                    "links in generation {}",
                    to_int(who), to_int(options_.group.rank), to_int(options_.group.generation)),
        who);
  }

  Transport& transport_;
  const MeasureOptions& options_;
  const Rank peer_;
  const Deadline deadline_;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
};

// Seconds a byte of `work`, which passes over `bytes`.
template <class Work>
double seconds_per_byte(Clock& clock, std::size_t bytes, const Work& work) {
  Duration least = Duration::max();
  for (int round = 0; round < 5; ++round) {
    const TimePoint start = clock.now();
    work();
    least = std::min(least, clock.now() - start);
  }
  return std::max(to_seconds(least), 1e-9) / static_cast<double>(bytes);
}

// One rank's links, in the order in which it turns to them.
class Links {
 public:
  Links(Transport& transport, const MeasureOptions& options, CostBook& book, Deadline deadline)
      : transport_(transport), options_(options), book_(book), deadline_(deadline) {}

  // Hosts in a ring, of which no two neighbours time at once; then the way inside each.
  Status measure(CostTable& costs) {
    const Topology& topology = transport_.topology();
    const std::int32_t hosts = topology.hosts();
    const std::int32_t mine = topology.host_of(options_.group.rank);
    const std::int32_t place = topology.place_of(options_.group.rank);
    const std::int32_t edges = hosts > 2 ? hosts : hosts - 1;
    constexpr std::int32_t kTurns = 3;  // an odd ring needs one more
    for (std::int32_t turn = 0; turn < kTurns && place == 0; ++turn) {
      const std::int32_t before = (mine + hosts - 1) % hosts;
      if (mine < edges && turn_of(mine, edges) == turn)
        MUSTER_TRY(time(lead_of((mine + 1) % hosts), costs.between, costs.per_message));
      if (before < edges && before != mine && turn_of(before, edges) == turn)
        MUSTER_TRY(answer_to(lead_of(before)));
    }
    const auto members = topology.members(mine);
    if (members.size() < 2 || place > 1) return ok();
    if (place == 1) return answer_to(Rank{members[0]});
    return time(Rank{members[1]}, costs.inside, costs.per_message);
  }

 private:
  static std::int32_t turn_of(std::int32_t edge, std::int32_t edges) {
    return edges > 2 && edges % 2 == 1 && edge == edges - 1 ? 2 : edge % 2;
  }
  Rank lead_of(std::int32_t host) const { return Rank{transport_.topology().members(host)[0]}; }

  // The other end waits for it even where nothing is to be timed.
  Status time(Rank peer, LinkCosts& into, double& per_message) {
    TransportLine line(transport_, options_, peer, deadline_);
    const std::string& host = options_.hosts[static_cast<std::size_t>(to_int(peer))];
    auto known = host.empty() ? book_.links.end() : book_.links.find(host);
    MeasuredLink link;
    if (known != book_.links.end()) {
      MUSTER_TRY(skip_link(line));
      link = known->second;
    } else {
      MUSTER_ASSIGN(link, time_link(line, transport_.inbox().clock(), book_.copy_per_byte));
      if (!host.empty()) book_.links[host] = link;
    }
    into = link.costs;
    per_message = std::max(per_message, link.per_message);
    return ok();
  }

  Status answer_to(Rank peer) {
    TransportLine line(transport_, options_, peer, deadline_);
    return answer_link(line);
  }

  Transport& transport_;
  const MeasureOptions& options_;
  CostBook& book_;
  const Deadline deadline_;
};

constexpr std::size_t kNumbers = 7;

std::array<double, kNumbers> numbers_of(const CostTable& costs) {
  return {costs.inside.latency,   costs.inside.per_byte, costs.between.latency,
          costs.between.per_byte, costs.per_message,     costs.reduce_per_byte,
          costs.copy_per_byte};
}

CostTable table_of(const std::array<double, kNumbers>& n) {
  return {.inside = {n[0], n[1]},
          .between = {n[2], n[3]},
          .per_message = n[4],
          .reduce_per_byte = n[5],
          .copy_per_byte = n[6]};
}

std::string describe(const LinkCosts& link, double per_message) {
  return fmt::format("{:.1f} µs and {}/s", one_way(link, per_message) * 1e6,
                     format_bytes(static_cast<std::uint64_t>(std::min(1 / link.per_byte, 1e15))));
}

}  // namespace

void measure_machine(Clock& clock, CostBook& book) {
  if (book.reduce_per_byte > 0) return;
  std::vector<float> a(std::size_t{64} << 10, 1.0F);
  std::vector<float> b = a;
  const std::size_t bytes = a.size() * sizeof(float);
  const auto at = [](std::vector<float>& values) {
    return reinterpret_cast<std::byte*>(values.data());
  };
  book.reduce_per_byte = seconds_per_byte(clock, bytes, [&] {
    reduce(DType::kF32, Reduce::kSum, {at(a)}, at(a), at(b), static_cast<std::int64_t>(a.size()));
  });
  book.copy_per_byte = seconds_per_byte(clock, bytes, [&] { std::memcpy(at(b), at(a), bytes); });
}

std::string to_text(const CostTable& costs) {
  return fmt::format("{}", fmt::join(numbers_of(costs), ","));
}

std::optional<CostTable> cost_table_from(std::string_view text) {
  std::array<double, kNumbers> numbers{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0 && (at == end || *at++ != ',')) return std::nullopt;
    const auto [stop, error] = std::from_chars(at, end, numbers[i]);
    if (error != std::errc() || !(numbers[i] >= 0) ||
        numbers[i] > std::numeric_limits<float>::max())
      return std::nullopt;
    at = stop;
  }
  if (at != end) return std::nullopt;
  return table_of(numbers);
}

std::string describe(const CostTable& costs) {
  std::string text;
  if (costs.between.latency > 0)
    text = fmt::format("{} between hosts", describe(costs.between, costs.per_message));
  if (costs.inside.latency > 0)
    text += fmt::format("{}{} inside one", text.empty() ? "" : ", ",
                        describe(costs.inside, costs.per_message));
  return text;
}

Result<CostTable> measure_own_costs(Transport& transport, const MeasureOptions& options,
                                    CostBook& book, Deadline deadline) {
  measure_machine(transport.inbox().clock(), book);
  CostTable costs;
  MUSTER_TRY(Links(transport, options, book, deadline).measure(costs));
  costs.reduce_per_byte = book.reduce_per_byte;
  costs.copy_per_byte = book.copy_per_byte;
  return costs;
}

bool covers(const CostTable& costs, const Topology& topology) noexcept {
  return (topology.hosts() == 1 || costs.between.latency > 0) &&
         (topology.hosts() == topology.size() || costs.inside.latency > 0);
}

CostTable dearest(const std::vector<CostTable>& costs) {
  std::array<double, kNumbers> most{};
  for (const CostTable& table : costs) {
    const auto numbers = numbers_of(table);
    std::ranges::transform(most, numbers, most.begin(),
                           [](double a, double b) { return std::max(a, b); });
  }
  return table_of(most);
}

}  // namespace muster::comm
