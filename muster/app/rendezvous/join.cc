#include "muster/app/rendezvous/join.h"

#include <fmt/format.h>
#include <unistd.h>

#include "muster/app/rendezvous/torch_store.h"
#include "muster/app/world/member_ties.h"
#include "muster/base/random.h"
#include "muster/cluster/environment.h"
#include "muster/cluster/meeting.h"
#include "muster/cluster/started_by.h"
#include "muster/comm/backend/loopback/loopback.h"

namespace muster::app {
namespace {

constexpr Duration kLook = std::chrono::seconds(1);  // for what the store already has, or has not

cluster::MeetingProcess this_process(std::int32_t rank) {
  const cluster::WorkerInfo here = cluster::describe_this_process(rank);
  const auto command = system_files().read("/proc/self/cmdline");
  // Not the words themselves, which whoever reaches the store could read.
  return {.host = here.host,
          .pid = here.pid,
          .program = command ? fmt::format("command {:x}", stable_hash(*command)) : ""};
}

// Rank 0's, once all are there: they may be the other job's.
void warn_of_contender(const cluster::StartedBy& by, cluster::KvStore& store, const Logger& log) {
  const std::string contender =
      cluster::contender_at_port(store, by, Deadline::after(system_clock(), kLook));
  if (contender.empty()) return;
  log->warn(
      "[world] another job was given {} (MASTER_ADDR, MASTER_PORT) too: {}, which was turned away. "
      "Nothing tells its other ranks from this one's: give each job a MASTER_PORT of its own, or a "
      "TORCHELASTIC_RUN_ID",
      net::to_string(by.meeting), contender);
}

// Rank 0: makes the place, and tells of it.
Result<MeetingPlace> open_place(const cluster::StartedBy& by, cluster::KvStore& store,
                                Deadline deadline, const Logger& log) {
  MUSTER_ASSIGN(const auto own, cluster::meeting_credentials(system_clock().wall()));
  MUSTER_ASSIGN(auto host, create_host(own.credentials,
                                       {.listen = cluster::meeting_listen_address(by),
                                        .ranks = by.ranks,
                                        .meeting = by.meeting,
                                        .join_timeout = deadline.left(system_clock())},
                                       log));
  MeetingPlace place{.coordinator = {by.meeting.host, host->address().port},
                     .credentials = net::to_text(own.credentials),
                     .rank = by.rank,
                     .first_is_host = true,
                     .host = std::move(host)};
  MUSTER_TRY(store.set(cluster::meeting_key(by),
                       cluster::to_bytes(cluster::meeting_text(place.coordinator, own)), deadline));
  return place;
}

// The others.
Result<MeetingPlace> find_place(const cluster::StartedBy& by, cluster::KvStore& store,
                                Deadline deadline) {
  const auto told = store.get(cluster::meeting_key(by), deadline);
  if (!told) return with_context(told.error(), "rank 0 did not come");
  MUSTER_ASSIGN(auto meeting, cluster::read_meeting(cluster::to_string(*told)));
  return MeetingPlace{.coordinator = std::move(meeting.place),
                      .credentials = std::move(meeting.credentials),
                      .rank = by.rank,
                      .first_is_host = true};
}

Result<World> meet_as_started(const cluster::StartedBy& by, const JoinOptions& options,
                              const Logger& log) {
  if (by.ranks == 1) return World(comm::create_loopback(1).front(), nullptr, log);
  MUSTER_ASSIGN(const auto patience, cluster::meeting_patience(cluster::system_variable));
  const Duration wait = patience.limit;
  const Deadline deadline = Deadline::after(system_clock(), wait);
  const std::string doubt = by.rank == 0 ? cluster::doubt_about_meeting(by.meeting) : "";
  if (!doubt.empty()) log->warn("{}", doubt);
  // Until all have met: others read it.
  MUSTER_ASSIGN(const auto store, open_torch_store(by, this_process(by.rank), deadline));
  MUSTER_ASSIGN(auto place, by.rank == 0 ? open_place(by, *store, deadline, log)
                                         : find_place(by, *store, deadline));
  place.patience = wait;
  place.transport = options.transport;
  place.over_mpi = options.over_mpi;
  auto world = meet(std::move(place), log);
  if (world && by.rank == 0) warn_of_contender(by, *store, log);
  return world;
}

// Those of muster's own launcher, of another one, or a world of one; with who it was.
Result<World> meet_all(std::string& launcher, const JoinOptions& options, const Logger& log) {
  auto own = cluster::read_environment(cluster::system_variable);
  if (own) {
    launcher = "muster launch";
    MUSTER_ASSIGN(const auto patience, cluster::meeting_patience(cluster::system_variable));
    return meet({.coordinator = own->coordinator,
                 .credentials = own->credentials,
                 .rank = own->worker,
                 .patience = patience.limit,
                 .transport = options.transport,
                 .over_mpi = options.over_mpi},
                log);
  }
  if (own.error().code != ErrorCode::kNotFound) return own.error();
  const auto by = cluster::who_started(cluster::system_variable, ::getppid());
  if (!by && by.error().code != ErrorCode::kNotFound) return by.error();
  launcher = by ? by->launcher : "itself";
  if (!by) return World(comm::create_loopback(1).front(), nullptr, log);
  auto world = meet_as_started(*by, options, log);
  if (world) return world;
  return with_context(world.error(), fmt::format("[world] rank {} of {}, started by {}", by->rank,
                                                 by->ranks, by->launcher));
}

}  // namespace

World join(const JoinOptions& options) {
  const Logger log = create_stderr_logger();  // standard output is the user's
  log->set_level(spdlog::level::warn);
  std::string launcher;
  auto met = meet_all(launcher, options, log);
  if (!met) throw Failure(met.error());
  if (met->rank() != 0) return *std::move(met);
  log->set_level(spdlog::level::info);
  log->info("started by {}: a world of {}", launcher,
            met->size() == 1 ? "one process" : fmt::format("{} processes", met->size()));
  return *std::move(met);
}

}  // namespace muster::app
