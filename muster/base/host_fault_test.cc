#include "muster/base/host_fault.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "muster/base/system_error.h"

namespace muster {
namespace {

TEST(HostFault, IsALackOfMemoryOrADiskThatCannotBeRead) {
  EXPECT_TRUE(may_be_of_one_host(system_error("files/read", "images", EIO)));
  EXPECT_TRUE(may_be_of_one_host(system_error("shared page", "page", ENOMEM)));
  EXPECT_TRUE(may_be_of_one_host({ErrorCode::kUnavailable, "[worker/train] not enough memory"}));
}

TEST(HostFault, IsNothingThatOthersShare) {
  EXPECT_FALSE(may_be_of_one_host(system_error("files/write", "checkpoint", ENOSPC)));
  EXPECT_FALSE(may_be_of_one_host(system_error("files/open", "images", ENOENT)));
  EXPECT_FALSE(may_be_of_one_host({ErrorCode::kNumeric, "[train/step] the loss is NaN"}));
  Error of_a_peer = system_error("shared memory", "rank 2", ENOMEM);
  of_a_peer.peer = Rank{2};
  EXPECT_FALSE(may_be_of_one_host(of_a_peer));
}

}  // namespace
}  // namespace muster
