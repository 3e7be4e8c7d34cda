#include "muster/app/engines/mpi.h"

#include <fmt/format.h>

#include <string_view>

#include "muster/base/process.h"

namespace muster::app {
namespace {

// What each MPI's launcher sets; Slurm and others speak PMIx to Open MPI, and PMI to MPICH and its
// kin.
struct Mark {
  const char* variable;
  const char* mpi;
};
constexpr Mark kMarks[] = {{"OMPI_COMM_WORLD_SIZE", "openmpi"},
                           {"PMIX_RANK", "openmpi"},
                           {"PMI_SIZE", "mpich"},
                           {"PMI_RANK", "mpich"}};

constexpr std::string_view kPrefix = "mpi-";
constexpr std::string_view kSuffix = ".so";

Path folder_of_modules(const Path& folder) { return folder.parent_path() / "lib" / "muster"; }

}  // namespace

std::vector<std::string> mpi_modules(Files& files, const Path& folder) {
  std::vector<std::string> found;
  const auto there = files.list(folder_of_modules(folder));
  if (!there) return found;
  for (const std::string& name : *there)
    if (name.starts_with(kPrefix) && name.ends_with(kSuffix))
      found.push_back(name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size()));
  return found;
}

Result<Path> mpi_module(const cluster::VariableLookup& variable, const Path& folder) {
  std::string mpi = variable(kMpiVariable).value_or("");
  if (mpi.find('/') != std::string::npos) return Path(mpi);
  for (const Mark& mark : kMarks)
    if (mpi.empty() && variable(mark.variable)) mpi = mark.mpi;
  if (mpi.empty())
    return fail(ErrorCode::kInvalid,
                "[app/mpi] communication.engine is mpi, and no MPI has started this worker: start "
                "it as `mpirun -n 4 muster train JOB`, or set communication.engine: native");
  return folder_of_modules(folder) / fmt::format("{}{}{}", kPrefix, mpi, kSuffix);
}

Result<std::unique_ptr<comm::MpiNetwork>> begin_mpi(std::uint64_t job, const Logger& log) {
  MUSTER_ASSIGN(const Path module,
                mpi_module(cluster::system_variable, this_program().parent_path()));
  auto begun = comm::create_mpi_network({.module = module, .job = job, .log = log});
  if (begun) return begun;
  return with_context(
      std::move(begun).error(),
      fmt::format("[app/mpi] the engine mpi does not work here; a module "
                  "for another MPI is built as docs/communication.md says, and named "
                  "by {}",
                  kMpiVariable));
}

}  // namespace muster::app
