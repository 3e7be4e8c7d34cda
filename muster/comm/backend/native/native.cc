#include "muster/comm/backend/native/native.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "muster/base/units.h"
#include "muster/comm/backend/native/share.h"
#include "muster/comm/backend/native/shared_engine.h"
#include "muster/comm/backend/native/tcp_transport.h"
#include "muster/comm/engine/engine_communicator.h"

namespace muster::comm {
namespace {

std::string_view name(NativeTransport transport) noexcept {
  switch (transport) {
    case NativeTransport::kAuto:
      return "auto";
    case NativeTransport::kSharedMemory:
      return "shm";
    case NativeTransport::kTcp:
      return "tcp";
  }
  return "?";
}

// What a rank says first: "<transport> <costs> <host>".
struct Introduction {
  std::string_view transport;
  std::string_view costs;  // "=1,2,…": the table to choose by; "~1,2,…": measured before; "?": none
  std::string_view host;
};

constexpr char kGiven = '=';
constexpr char kKnown = '~';

std::string to_text(const NativeOptions& options, const CostBook& book, std::string_view host) {
  const std::string costs = options.costs ? kGiven + to_text(*options.costs)
                            : book.table  ? kKnown + to_text(*book.table)
                                          : "?";
  return fmt::format("{} {} {}", name(options.transport), costs, host);
}

Introduction introduction_from(std::string_view text) {
  Introduction said;
  said.transport = next_word(text);
  said.costs = next_word(text);
  said.host = text;
  return said;
}

Rank rank_at(std::ptrdiff_t place) { return Rank{static_cast<std::int32_t>(place)}; }

// All of one transport, and on one host where it has to be: the same answer on each rank.
Result<NativeTransport> agree(const std::vector<Introduction>& said, const Group& group,
                              NativeTransport wish) {
  const std::string_view mine = said[static_cast<std::size_t>(to_int(group.rank))].host;
  const auto strange = std::ranges::find_if(
      said, [&](const Introduction& other) { return other.transport != name(wish); });
  if (strange != said.end())
    return fail(ErrorCode::kInvalid,
                fmt::format("[comm/native] rank {} asks for transport {}, this rank for {}: set "
                            "communication.transport alike",
                            strange - said.begin(), strange->transport, name(wish)),
                rank_at(strange - said.begin()));
  const auto elsewhere =
      std::ranges::find_if(said, [&](const Introduction& other) { return other.host != mine; });
  const bool one_host = elsewhere == said.end() && !mine.empty();
  if (wish == NativeTransport::kSharedMemory && !one_host)
    return fail(ErrorCode::kUnavailable,
                fmt::format("[comm/native] transport shm, but rank {} is on another host: set "
                            "communication.transport to auto or tcp",
                            elsewhere - said.begin()),
                rank_at(elsewhere - said.begin()));
  if (wish != NativeTransport::kAuto) return wish;
  return one_host ? NativeTransport::kSharedMemory : NativeTransport::kTcp;
}

// Ranks that choose by different tables would play different schedules.
Status check_given(const std::vector<Introduction>& said, const Group& group) {
  const std::string_view mine = said[static_cast<std::size_t>(to_int(group.rank))].costs;
  const auto other = std::ranges::find_if(said, [&](const Introduction& theirs) {
    const bool given = theirs.costs.starts_with(kGiven) || mine.starts_with(kGiven);
    return given && theirs.costs != mine;
  });
  if (other == said.end()) return ok();
  const Rank who = rank_at(other - said.begin());
  return fail(ErrorCode::kInvalid,
              fmt::format("[comm/native] rank {} has another table of what links cost than rank {} "
                          "in generation {}: all ranks must choose schedules by the same one; do "
                          "all workers run the same muster?",
                          to_int(who), to_int(group.rank), to_int(group.generation)),
              who);
}

// What those who have met before agreed on then holds as long as no host is new. Decided alike on
// all ranks, also on one that comes to a known host and knows nothing itself.
std::optional<CostTable> known_by_all(const std::vector<Introduction>& said) {
  std::set<std::string_view> tables;
  std::map<std::string_view, bool> hosts;  // whether somebody there knows
  for (const Introduction& one : said) {
    const bool knows = !one.costs.starts_with('?');
    if (knows) tables.insert(one.costs);
    bool& known = hosts[one.host];
    known = known || knows;
    if (one.host.empty() && !knows) return std::nullopt;
  }
  const bool everywhere = std::ranges::all_of(hosts, [](const auto& host) { return host.second; });
  if (tables.size() != 1 || !everywhere) return std::nullopt;
  return cost_table_from(tables.begin()->substr(1));
}

// How long ranks that have just connected may take for it: then one hangs, or a link is cut.
constexpr Duration kMeasuring = std::chrono::seconds(10);

// Measured together, and told to each other: the dearest of each counts.
Result<CostTable> measure(const NativeOptions& options, Transport& transport,
                          const std::vector<Introduction>& said, CostBook& book,
                          Deadline deadline) {
  const TimePoint began = options.clock->now();
  std::vector<std::string> hosts;
  hosts.reserve(said.size());
  for (const Introduction& one : said) hosts.emplace_back(one.host);
  // Half of what is left at most: what went wrong has to be told before the others give up.
  const Deadline measured(began + std::min(kMeasuring, (deadline.at() - began) / 2));
  const auto mine = measure_own_costs(
      transport, {.group = options.group, .hosts = hosts, .cancelled = options.cancelled}, book,
      measured);
  if (!mine) transport.fail(mine.error());
  const Result<std::string> told = mine ? Result<std::string>(to_text(*mine)) : mine.error();
  MUSTER_ASSIGN(const auto all, share(options.exchange, options.group, told, deadline));
  std::vector<CostTable> tables;
  for (const std::string& text : all) {
    const auto table = cost_table_from(text);
    if (!table)
      return no_sense(options.group, rank_at(std::ssize(tables)), "what links cost", text);
    tables.push_back(*table);
  }
  const CostTable costs = dearest(tables);
  options.log->info("links were measured in {}: {}", format_duration(options.clock->now() - began),
                    describe(costs));
  return costs;
}

std::string describe_way(const NativeOptions& options, NativeTransport transport,
                         std::ptrdiff_t neighbours) {
  if (transport != NativeTransport::kTcp) return "shared memory";
  if (neighbours == 0) return options.network->name();
  return fmt::format("{}, and shared memory with {} of its own host", options.network->name(),
                     neighbours);
}

void tell(const NativeOptions& options, NativeTransport transport, std::ptrdiff_t neighbours) {
  options.log->info("rank {} of {} reaches the others in generation {} over {}",
                    to_int(options.group.rank), options.group.size,
                    to_int(options.group.generation), describe_way(options, transport, neighbours));
}

// Where it stands in a group, and what it heard of the others.
struct Met {
  const std::vector<Introduction>& said;
  NativeTransport transport;
  std::string host;  // whose memory is shared beside TCP; empty: none
  Deadline deadline;
};

Result<std::unique_ptr<Engine>> create_tcp_engine(const NativeOptions& options, const Met& met) {
  if (options.network == nullptr)
    return fail(ErrorCode::kInvalid, "[comm/native] transport tcp needs a network");
  const TcpOptions tcp{options.network, options.listen_host, options.log, options.cancelled,
                       met.host};
  MUSTER_ASSIGN(auto made,
                create_tcp_transport(options.group, tcp, options.exchange, met.deadline));
  CostBook unkept;
  CostBook& book = options.book != nullptr ? *options.book : unkept;
  book.table = options.costs ? options.costs : known_by_all(met.said);
  if (!options.costs && !(book.table && covers(*book.table, made->topology()))) {
    MUSTER_ASSIGN(book.table, measure(options, *made, met.said, book, met.deadline));
  }
  if (!options.over) return create_schedule_engine(options.group, std::move(made), *book.table);
  return options.over({.group = options.group,
                       .transport = std::move(made),
                       .costs = *book.table,
                       .exchange = options.exchange,
                       .cancelled = options.cancelled,
                       .deadline = met.deadline});
}

Result<std::unique_ptr<Engine>> create_engine(const NativeOptions& options, const Met& met) {
  if (met.transport == NativeTransport::kTcp) return create_tcp_engine(options, met);
  MUSTER_ASSIGN(auto group,
                SharedGroup::create(options.group, options.heap_bytes, *options.clock,
                                    options.exchange, met.deadline, options.reads_from));
  if (options.group.size > 1)
    options.log->info("in generation {} {}", to_int(options.group.generation),
                      group->describe_reads());
  return create_shared_engine(std::move(group));
}

}  // namespace

Result<std::shared_ptr<Communicator>> create_native(const NativeOptions& options) {
  const std::string host = options.host.empty() ? boot_id() : options.host;
  const std::string mine =
      to_text(options, options.book != nullptr ? *options.book : CostBook{}, host);
  const Duration arrival = options.arrival_timeout.value_or(options.connect_timeout);
  MUSTER_ASSIGN(const auto texts, options.exchange(mine, Deadline::after(*options.clock, arrival)));
  const auto deadline = Deadline::after(*options.clock, options.connect_timeout);
  std::vector<Introduction> said;
  for (const std::string& text : texts) said.push_back(introduction_from(text));
  MUSTER_ASSIGN(auto transport, agree(said, options.group, options.transport));
  if (options.over) transport = NativeTransport::kTcp;
  MUSTER_TRY(check_given(said, options.group));
  const bool mixes = options.transport == NativeTransport::kAuto && !host.empty();
  const std::ptrdiff_t neighbours =
      mixes ? std::ranges::count(said, host, &Introduction::host) - 1 : 0;
  MUSTER_ASSIGN(auto engine, create_engine(options, {.said = said,
                                                     .transport = transport,
                                                     .host = neighbours > 0 ? host : "",
                                                     .deadline = deadline}));
  tell(options, transport, neighbours);
  return create_communicator(options.group, std::move(engine), *options.clock);
}

}  // namespace muster::comm
