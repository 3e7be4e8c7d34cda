#include "muster/cluster/started_by.h"

#include <fmt/format.h>

#include <optional>

#include "muster/base/random.h"

namespace muster::cluster {
namespace {

// torch's own, for whoever sets the variables by hand.
constexpr std::int32_t kUsualPort = 29500;
// Above the ports that the system gives out by itself (32768 to 60999), below the last.
constexpr std::uint64_t kFirstPort = 61000, kPorts = 4500;

// How a launcher names what all of them tell; null: it does not.
struct Dialect {
  const char* launcher = nullptr;
  const char* rank = nullptr;
  const char* ranks = nullptr;
  const char* local_ranks = nullptr;  // on this host
  const char* more = nullptr;         // besides its rank, what shows that it is this launcher
  const char* start = nullptr;        // tells its jobs apart
  const char* again = nullptr;        // and their restarts, where a store outlives one
  const char* part = nullptr;         // and their steps
  const char* hosts = nullptr;        // how many have ranks
  const char* host_list = nullptr;    // which
  bool speaks_mpi = false;            // by PMI, PMIx or a way of its own
};

constexpr const char* kByHand = "RANK and WORLD_SIZE";

constexpr Dialect kDialects[] = {
    {.launcher = "muster launch",
     .rank = "RANK",
     .ranks = "WORLD_SIZE",
     .local_ranks = "LOCAL_WORLD_SIZE",
     .more = kLaunchVariable,
     .start = kLaunchVariable},
    {.launcher = "torchrun",
     .rank = "RANK",
     .ranks = "WORLD_SIZE",
     .local_ranks = "LOCAL_WORLD_SIZE",
     .more = "TORCHELASTIC_RUN_ID",
     .start = "TORCHELASTIC_RUN_ID",
     .again = "TORCHELASTIC_RESTART_COUNT"},
    {.launcher = kByHand, .rank = "RANK", .ranks = "WORLD_SIZE", .local_ranks = "LOCAL_WORLD_SIZE"},
    {.launcher = "Kubeflow (PET_NODE_RANK)", .rank = "PET_NODE_RANK", .ranks = "PET_NNODES"},
    {.launcher = "Open MPI",
     .rank = "OMPI_COMM_WORLD_RANK",
     .ranks = "OMPI_COMM_WORLD_SIZE",
     .local_ranks = "OMPI_COMM_WORLD_LOCAL_SIZE",
     .start = "PMIX_NAMESPACE",
     .speaks_mpi = true},
    {.launcher = "MPICH",
     .rank = "PMI_RANK",
     .ranks = "PMI_SIZE",
     .local_ranks = "MPI_LOCALNRANKS",
     .more = "MPI_LOCALNRANKS",
     .speaks_mpi = true},
    {.launcher = "Slurm",
     .rank = "SLURM_PROCID",
     .ranks = "SLURM_STEP_NUM_TASKS",
     .more = "SLURM_STEP_NUM_TASKS",  // a batch script has a SLURM_PROCID too, and is no rank
     .start = "SLURM_JOB_ID",
     .part = "SLURM_STEP_ID",
     .hosts = "SLURM_STEP_NUM_NODES",
     .host_list = "SLURM_STEP_NODELIST",
     .speaks_mpi = true},
    {.launcher = "PMI",  // as Cray's; srun sets these as well, where it is asked for --mpi=pmi2
     .rank = "PMI_RANK",
     .ranks = "PMI_SIZE",
     .local_ranks = "PMI_LOCAL_SIZE",
     .speaks_mpi = true},
    // Tells its number of ranks to those alone that ask its server; Open MPI's mpirun, which is one
    // too, by a variable of its own.
    {.launcher = "PMIx",
     .rank = "PMIX_RANK",
     .ranks = "WORLD_SIZE",
     .start = "PMIX_NAMESPACE",
     .speaks_mpi = true},
    {.launcher = "an indexed Job of Kubernetes",
     .rank = "JOB_COMPLETION_INDEX",
     .ranks = "WORLD_SIZE"},
};

const Dialect* dialect_of(const VariableLookup& variable) {
  for (const Dialect& dialect : kDialects)
    if (variable(dialect.rank) && (dialect.more == nullptr || variable(dialect.more)))
      return &dialect;
  return nullptr;
}

Error lacks(const Dialect& dialect, const std::string& name, const std::string& what) {
  return fail(
      ErrorCode::kInvalid,
      fmt::format("[cluster/environment] started by {}: {} is set, but {} is not; set it to "
                  "{}",
                  dialect.launcher, dialect.rank, name, what));
}

Result<bool> are_all_here(const VariableLookup& variable, const Dialect& dialect,
                          std::int32_t ranks) {
  if (ranks == 1) return true;
  if (dialect.hosts != nullptr) {
    MUSTER_ASSIGN(const auto hosts, number_in(variable, dialect.hosts, 1));
    if (hosts == 1) return true;
  }
  if (dialect.local_ranks == nullptr) return false;
  MUSTER_ASSIGN(const auto here, number_in(variable, dialect.local_ranks, 1));
  return here == ranks;
}

// Where all are on one host, or the launcher lists them, the first one's is known.
Result<std::string> host_of_first(const VariableLookup& variable, const Dialect& dialect,
                                  std::int32_t ranks) {
  for (const char* name : {"MASTER_ADDR", "PET_MASTER_ADDR"})
    if (auto told = variable(name); told && !told->empty()) return *std::move(told);
  MUSTER_ASSIGN(const bool here, are_all_here(variable, dialect, ranks));
  if (here) return std::string("127.0.0.1");
  if (dialect.host_list != nullptr)
    if (const auto list = variable(dialect.host_list)) return first_host(*list);
  return lacks(dialect, "MASTER_ADDR", "the host of rank 0, for all ranks");
}

Result<std::uint16_t> port_of(const VariableLookup& variable, const std::string& start) {
  for (const char* name : {"MASTER_PORT", "PET_MASTER_PORT"}) {
    MUSTER_ASSIGN(const auto told, number_in(variable, name, 1));
    if (told && *told > 65535)
      return fail(
          ErrorCode::kInvalid,
          fmt::format("[cluster/environment] {} is {}; a port is at most 65535", name, *told));
    if (told) return static_cast<std::uint16_t>(*told);
  }
  if (start.empty()) return static_cast<std::uint16_t>(kUsualPort);
  return static_cast<std::uint16_t>(kFirstPort + stable_hash(start) % kPorts);
}

// What tells this start of a program from others that could meet at the same place. Restarts do
// only where the launcher's store outlives them: one of rank 0's own is gone with it, and ranks
// that have been started more often than it, as where one died before all had met, find it all the
// same.
std::string start_of(const VariableLookup& variable, const Dialect& dialect, bool is_served) {
  std::string start;
  for (const char* name : {dialect.start, dialect.part, is_served ? dialect.again : nullptr})
    if (const auto value = name != nullptr ? variable(name) : std::nullopt)
      start += (start.empty() ? "" : ".") + *value;
  return start;
}

// By PMI, which tells its ranks nothing that other jobs do not have too.
bool has_no_name(const Dialect& dialect) { return std::string_view(dialect.rank) == "PMI_RANK"; }

bool serves(const VariableLookup& variable, const Dialect& dialect) {
  return dialect.again != nullptr &&
         variable("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
}

// One process a node is what such variables mean for a program that torchrun does not start.
Status check_one_per_node(const VariableLookup& variable, const Dialect& dialect) {
  const auto per_node = variable("PET_NPROC_PER_NODE");
  const bool counts_nodes = std::string_view(dialect.ranks) == "PET_NNODES";
  if (!counts_nodes || !per_node || *per_node == "1") return ok();
  return fail(ErrorCode::kInvalid,
              fmt::format("[cluster/environment] PET_NPROC_PER_NODE is {}, and this is one process "
                          "of its node; start it with muster launch, which reads these variables, "
                          "or set it to 1",
                          *per_node));
}

}  // namespace

std::string how_ranks_are_started(const StartedBy& by) {
  if (by.launcher == kByHand)
    return fmt::format(
        "each is to be started like this one, with its RANK, WORLD_SIZE={}, MASTER_ADDR={} and "
        "MASTER_PORT={}",
        by.ranks, by.meeting.host, by.meeting.port);
  return fmt::format("{} starts all {}, and tells what became of those that are missing",
                     by.launcher, by.ranks);
}

std::string first_host(const std::string& list) {
  const auto bracket = list.find('[');
  const auto comma = list.find(',');
  if (comma < bracket) return list.substr(0, comma);
  if (bracket == std::string::npos) return list;
  const auto closed = list.find(']', bracket);
  if (closed == std::string::npos) return list;
  const auto number_end = list.find_first_of("-,]", bracket);
  const auto rest_end = list.find(',', closed);
  return list.substr(0, bracket) + list.substr(bracket + 1, number_end - bracket - 1) +
         list.substr(closed + 1, rest_end == std::string::npos ? rest_end : rest_end - closed - 1);
}

Result<StartedBy> who_started(const VariableLookup& variable, std::int32_t parent) {
  const Dialect* dialect = dialect_of(variable);
  if (dialect == nullptr)
    return fail(ErrorCode::kNotFound, "[cluster/environment] no launcher has started this");
  MUSTER_ASSIGN(const auto rank, number_in(variable, dialect->rank, 0));
  MUSTER_ASSIGN(const auto ranks, number_in(variable, dialect->ranks, 1));
  if (!ranks) return lacks(*dialect, dialect->ranks, "how many ranks there are (1: each is alone)");
  if (*rank >= *ranks)
    return fail(ErrorCode::kInvalid, fmt::format("[cluster/environment] {} is {}, and {} only {}",
                                                 dialect->rank, *rank, dialect->ranks, *ranks));
  MUSTER_TRY(check_one_per_node(variable, *dialect));
  const bool is_served = serves(variable, *dialect);
  StartedBy by{.launcher = dialect->launcher,
               .rank = *rank,
               .ranks = *ranks,
               .meeting = {},
               .is_served = is_served,
               .speaks_mpi = dialect->speaks_mpi,
               .attempt = start_of(variable, *dialect, is_served)};
  MUSTER_ASSIGN(by.shares_host, are_all_here(variable, *dialect, *ranks));
  if (by.shares_host && has_no_name(*dialect))
    by.attempt = fmt::format("started by process {}", parent);
  MUSTER_ASSIGN(by.meeting.host, host_of_first(variable, *dialect, *ranks));
  MUSTER_ASSIGN(by.meeting.port, port_of(variable, by.attempt));
  return by;
}

}  // namespace muster::cluster
