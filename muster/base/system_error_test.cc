#include "muster/base/system_error.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace muster {
namespace {

TEST(SystemError, SaysWhichLimitToRaise) {
  EXPECT_EQ(system_error("files/write", "a.bin", EFBIG).message,
            "[files/write] a.bin: File too large; raise the limit of a file's size (ulimit -f)");
  EXPECT_EQ(system_error("files/write", "a.bin", EFBIG).code, ErrorCode::kUnavailable);
  EXPECT_EQ(system_error("files/open", "a.bin", EMFILE).message,
            "[files/open] a.bin: Too many open files; raise the limit of open files (ulimit -n)");
}

}  // namespace
}  // namespace muster
