#include "muster/comm/backend/native/native.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "muster/base/checksum.h"
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

// Equal where the tables are.
std::uint64_t fingerprint(const CostTable& costs) {
  const double all[] = {costs.inside.latency,   costs.inside.per_byte, costs.between.latency,
                        costs.between.per_byte, costs.per_message,     costs.reduce_per_byte,
                        costs.copy_per_byte};
  return checksum_of(std::as_bytes(std::span(all)));
}

// Ranks that choose by different tables would play different schedules. `said`: "<wish> <costs> …".
Status agree_on_costs(const std::vector<std::string>& said, const Group& group) {
  const auto costs = [](std::string_view text) {
    text.remove_prefix(std::min(text.find(' ') + 1, text.size()));
    return text.substr(0, text.find(' '));
  };
  const auto mine = costs(said[static_cast<std::size_t>(to_int(group.rank))]);
  const auto other =
      std::ranges::find_if(said, [&](std::string_view theirs) { return costs(theirs) != mine; });
  if (other == said.end()) return ok();
  const Rank who{static_cast<std::int32_t>(other - said.begin())};
  return fail(ErrorCode::kInvalid,
              fmt::format("[comm/native] rank {} has another table of what links cost than rank {} "
                          "in generation {}: all ranks must choose schedules by the same one; do "
                          "all workers run the same muster?",
                          to_int(who), to_int(group.rank), to_int(group.generation)),
              who);
}

// From what all ranks said ("<wish> <costs> <boot id>"), the same answer on each of them.
Result<NativeTransport> agree(const std::vector<std::string>& said, const Group& group,
                              NativeTransport wish) {
  const std::string_view mine = said[static_cast<std::size_t>(to_int(group.rank))];
  const auto differs = [&](std::string_view other) { return other != mine; };
  const auto other = std::ranges::find_if(said, differs);
  const bool one_host = other == said.end() && !mine.ends_with(' ');
  const Rank who{static_cast<std::int32_t>(other - said.begin())};
  for (std::size_t rank = 0; rank < said.size(); ++rank)
    if (said[rank].substr(0, said[rank].find(' ')) != name(wish))
      return fail(ErrorCode::kInvalid,
                  fmt::format("[comm/native] rank {} asks for transport {}, this rank for {}: set "
                              "communication.transport alike",
                              rank, said[rank].substr(0, said[rank].find(' ')), name(wish)),
                  Rank{static_cast<std::int32_t>(rank)});
  MUSTER_TRY(agree_on_costs(said, group));
  if (wish == NativeTransport::kSharedMemory && !one_host)
    return fail(ErrorCode::kUnavailable,
                fmt::format("[comm/native] transport shm, but rank {} is on another host: set "
                            "communication.transport to auto or tcp",
                            to_int(who)),
                who);
  if (wish != NativeTransport::kAuto) return wish;
  return one_host ? NativeTransport::kSharedMemory : NativeTransport::kTcp;
}

void tell(const NativeOptions& options, NativeTransport transport, std::ptrdiff_t neighbours) {
  const std::string mixed =
      neighbours > 0 ? fmt::format("TCP, and shared memory with {} of its own host", neighbours)
                     : "TCP";
  options.log->info("rank {} of {} reaches the others in generation {} over {}",
                    to_int(options.group.rank), options.group.size,
                    to_int(options.group.generation),
                    transport == NativeTransport::kTcp ? mixed : "shared memory");
}

Result<std::unique_ptr<Engine>> create_engine(const NativeOptions& options,
                                              NativeTransport transport, std::string host,
                                              Deadline deadline) {
  if (transport == NativeTransport::kSharedMemory) {
    MUSTER_ASSIGN(auto group, SharedGroup::create(options.group, options.heap_bytes, *options.clock,
                                                  options.exchange, deadline));
    return create_shared_engine(std::move(group));
  }
  if (options.network == nullptr)
    return fail(ErrorCode::kInvalid, "[comm/native] transport tcp needs a network");
  const TcpOptions tcp{options.network, options.listen_host, options.log, options.cancelled,
                       std::move(host)};
  MUSTER_ASSIGN(auto made, create_tcp_transport(options.group, tcp, options.exchange, deadline));
  return create_schedule_engine(options.group, std::move(made), options.costs);
}

}  // namespace

Result<std::shared_ptr<Communicator>> create_native(const NativeOptions& options) {
  const std::string host = options.host.empty() ? boot_id() : options.host;
  const std::string mine =
      fmt::format("{} {} {}", name(options.transport), fingerprint(options.costs), host);
  const Duration arrival = options.arrival_timeout.value_or(options.connect_timeout);
  MUSTER_ASSIGN(const auto said, options.exchange(mine, Deadline::after(*options.clock, arrival)));
  const auto deadline = Deadline::after(*options.clock, options.connect_timeout);
  MUSTER_ASSIGN(const auto transport, agree(said, options.group, options.transport));
  const bool mixes = options.transport == NativeTransport::kAuto && !host.empty();
  const std::ptrdiff_t neighbours = mixes ? std::ranges::count(said, mine) - 1 : 0;
  MUSTER_ASSIGN(auto engine,
                create_engine(options, transport, neighbours > 0 ? host : "", deadline));
  tell(options, transport, neighbours);
  return create_communicator(options.group, std::move(engine), *options.clock);
}

}  // namespace muster::comm
