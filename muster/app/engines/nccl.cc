#include "muster/app/engines/nccl.h"

#include <fmt/format.h>

#include "muster/base/process.h"

namespace muster::app {

Result<Path> nccl_module(Files& files, const cluster::VariableLookup& variable,
                         const Path& folder) {
  const std::string named = variable(kNcclVariable).value_or("");
  Path module = named.empty() ? folder.parent_path() / "lib" / "muster" / "nccl.so" : Path(named);
  if (files.exists(module)) return module;
  return fail(ErrorCode::kUnavailable,
              fmt::format("[app/nccl] communication.engine is nccl, and muster has no module for "
                          "NCCL here: no {}; build one where CUDA and NCCL are, as "
                          "docs/communication.md says, or set communication.engine: native",
                          module.string()));
}

Result<std::string> describe_nccl(const Path& module) {
  MUSTER_ASSIGN(const MusterNccl* const nccl, comm::load_nccl(module));
  return comm::describe(*nccl);
}

Result<MusterNccl*> load_nccl() {
  MUSTER_ASSIGN(const Path module, nccl_module(system_files(), cluster::system_variable,
                                               this_program().parent_path()));
  auto loaded = comm::load_nccl(module);
  if (loaded) return loaded;
  return with_context(std::move(loaded).error(),
                      "[app/nccl] the engine nccl does not work here; it needs NCCL's and CUDA's "
                      "libraries, and NVIDIA's driver");
}

}  // namespace muster::app
