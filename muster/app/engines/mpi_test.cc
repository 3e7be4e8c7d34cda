#include "muster/app/engines/mpi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "muster/testing/memory_files.h"

namespace muster::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MemoryFiles;

Result<Path> module_of(const std::map<std::string, std::string>& variables) {
  return mpi_module(
      [&](const std::string& name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
      },
      "/opt/muster/bin");
}

TEST(Mpi, IsTheOneThatHasStartedTheProcess) {
  const Path openmpi = "/opt/muster/lib/muster/mpi-openmpi.so";
  const Path mpich = "/opt/muster/lib/muster/mpi-mpich.so";
  EXPECT_EQ(module_of({{"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_RANK", "1"}}).value(), openmpi);
  EXPECT_EQ(module_of({{"PMIX_RANK", "1"}}).value(), openmpi);  // Slurm's srun --mpi=pmix
  EXPECT_EQ(module_of({{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}}).value(), mpich);
  EXPECT_EQ(module_of({{"PMIX_RANK", "1"}, {"MUSTER_MPI", "mpich"}}).value(), mpich);
  EXPECT_EQ(module_of({{"MUSTER_MPI", "./mpi-cray.so"}}).value(), Path("./mpi-cray.so"));
}

TEST(Mpi, ModulesAreThoseThatAreThere) {
  MemoryFiles files;
  EXPECT_THAT(mpi_modules(files, "/opt/muster/bin"), IsEmpty());
  ASSERT_TRUE(files.create_folders("/opt/muster/lib/muster"));
  for (const auto* name : {"mpi-openmpi.so", "mpi-mpich.so", "libtorch.so", "mpi-readme.txt"})
    ASSERT_TRUE(write_atomically(files, Path("/opt/muster/lib/muster") / name, ""));
  EXPECT_THAT(mpi_modules(files, "/opt/muster/bin"), ElementsAre("mpich", "openmpi"));
}

TEST(Mpi, HasToHaveStartedTheProcess) {
  const auto none = module_of({});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(none.error().message, HasSubstr("mpirun -n 4 muster train JOB"));
}

}  // namespace
}  // namespace muster::app
