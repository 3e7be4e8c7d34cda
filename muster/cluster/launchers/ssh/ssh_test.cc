#include "muster/cluster/launchers/ssh/ssh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::cluster {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

TEST(Ssh, AsksNobodyAndTrustsOnlyWhomItKnows) {
  const ProcessSpec spec = create_ssh()->process_for("anna@node7", "echo 'a b'", "secret\n");
  EXPECT_EQ(spec.command.front(), "ssh");
  EXPECT_THAT(spec.command, Contains("BatchMode=yes"));
  EXPECT_THAT(spec.command, Contains("StrictHostKeyChecking=yes"));
  ASSERT_GE(spec.command.size(), 3U);
  EXPECT_EQ(spec.command[spec.command.size() - 3], "--") << "no name is an option";
  EXPECT_EQ(spec.command[spec.command.size() - 2], "anna@node7");
  EXPECT_EQ(spec.command.back(), R"(exec sh -c 'echo '\''a b'\''')");
  EXPECT_EQ(spec.input, "secret\n");
  for (const std::string& word : spec.command) EXPECT_THAT(word, Not(HasSubstr("secret")));
}

TEST(Ssh, SaysWhatToDoAboutWhatItSays) {
  const auto ssh = create_ssh();
  EXPECT_THAT(
      ssh->explain("b", {"No ED25519 host key is known for b and you have requested strict "
                         "checking.\r",
                         "Host key verification failed.\r", ""}),
      AllOf(HasSubstr("strict checking. / Host key verification failed."), HasSubstr("`ssh b`")));
  EXPECT_THAT(ssh->explain("b", {"@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @",
                                 "Host key verification failed."}),
              HasSubstr("ssh-keygen -R b"));
  EXPECT_THAT(ssh->explain("b", {"x@b: Permission denied (publickey)."}),
              HasSubstr("ssh-copy-id b"));
  EXPECT_THAT(ssh->explain("b", {}), HasSubstr("try `ssh b true`"));
}

}  // namespace
}  // namespace muster::cluster
