#include "muster/app/engines/nccl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/testing/memory_files.h"

namespace muster::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::MemoryFiles;

const Path kPrograms = "/opt/muster/bin";

std::optional<std::string> nothing(const std::string&) { return std::nullopt; }

TEST(Nccl, ModuleIsTheOneBesideTheProgramsOrTheOneThatIsNamed) {
  MemoryFiles files;
  for (const Path folder : {"/opt/muster/lib/muster", "/srv/own"}) {
    ASSERT_TRUE(files.create_folders(folder));
    ASSERT_TRUE(write_atomically(files, folder / "nccl.so", ""));
  }
  EXPECT_EQ(nccl_module(files, nothing, kPrograms).value(), Path("/opt/muster/lib/muster/nccl.so"));
  const auto named = [](const std::string& name) {
    return name == "MUSTER_NCCL" ? std::optional<std::string>("/srv/own/nccl.so") : std::nullopt;
  };
  EXPECT_EQ(nccl_module(files, named, kPrograms).value(), Path("/srv/own/nccl.so"));
}

TEST(Nccl, WithoutModuleSaysWhatToDo) {
  MemoryFiles files;
  const auto none = nccl_module(files, nothing, kPrograms);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(none.error().message, AllOf(HasSubstr("no /opt/muster/lib/muster/nccl.so"),
                                          HasSubstr("communication.engine: native")));
}

}  // namespace
}  // namespace muster::app
