#include "muster/app/engines/fabric.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/app/engines/testing/fabric_files.h"

namespace muster::app {
namespace {

using ::testing::IsEmpty;
using testing::MemoryFiles;

TEST(Fabric, IsFoundInEveryKindOfDevice) {
  MemoryFiles files;
  EXPECT_THAT(fabric_ports(files), IsEmpty());
  testing::add_verbs_device(files, {.name = "hfi1_0", .rate = "100 Gb/sec (4X EDR)"});
  testing::add_verbs_device(files, {.name = "mlx5_0", .rate = "400 Gb/sec (4X NDR)"});
  testing::add_verbs_device(files, {.name = "mlx5_1", .link_layer = "Ethernet", .rate = ""});
  ASSERT_TRUE(files.create_folders("/sys/class/cxi/cxi0"));
  std::vector<std::string> found;
  for (const FabricPort& port : fabric_ports(files)) {
    EXPECT_TRUE(port.is_active()) << port.name;
    found.push_back(describe(port));
  }
  EXPECT_THAT(found, ::testing::ElementsAre("Omni-Path hfi1_0 port 1 (100 Gb/sec (4X EDR))",
                                            "InfiniBand mlx5_0 port 1 (400 Gb/sec (4X NDR))",
                                            "RoCE mlx5_1 port 1", "Slingshot cxi0"));
}

TEST(Fabric, MayBeDown) {
  MemoryFiles files;
  testing::add_verbs_device(files, {.name = "mlx5_0", .state = "1: DOWN"});
  const auto ports = fabric_ports(files);
  ASSERT_EQ(ports.size(), 1u);
  EXPECT_EQ(ports[0].state, "DOWN");
  EXPECT_FALSE(ports[0].is_active());
}

TEST(Fabric, IsNoneThatEthernetOnlyPlays) {
  MemoryFiles files;
  testing::add_verbs_device(files, {.name = "rxe0", .link_layer = "Ethernet", .node_desc = "rxe"});
  testing::add_verbs_device(files,
                            {.name = "iwarp0", .link_layer = "Ethernet", .node_type = "4: RNIC"});
  testing::add_verbs_device(files, {.name = "efa_0", .link_layer = "Unspecified"});
  EXPECT_THAT(fabric_ports(files), IsEmpty());
}

}  // namespace
}  // namespace muster::app
