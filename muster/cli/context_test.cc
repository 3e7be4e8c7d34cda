#include "muster/cli/context.h"

#include <gtest/gtest.h>

#include <sstream>

#include "muster/cli/fake_machine.h"

namespace muster::cli {
namespace {

TEST(TerminalOfLauncher, IsWhatMpirunGivesItsRanks) {
  EXPECT_TRUE(is_terminal_of_launcher({{"OMPI_COMM_WORLD_RANK", "0"}, {"TERM", "xterm"}}));
  EXPECT_TRUE(is_terminal_of_launcher({{"PMIX_RANK", "0"}}));
  EXPECT_TRUE(is_terminal_of_launcher({{"PMI_RANK", "0"}}));
  EXPECT_TRUE(is_terminal_of_launcher({{"OMPI_COMM_WORLD_RANK", "0"}, {"SLURM_PTY_PORT", "4711"}}))
      << "mpirun inside of srun --pty";
}

TEST(TerminalOfLauncher, IsNoneOfAPersons) {
  EXPECT_FALSE(is_terminal_of_launcher({}));
  EXPECT_FALSE(is_terminal_of_launcher({{"TERM", "xterm"}, {"RANK", "0"}, {"WORLD_SIZE", "1"}}));
  EXPECT_FALSE(is_terminal_of_launcher({{"SLURM_PROCID", "0"}, {"SLURM_PTY_PORT", "4711"}}));
  EXPECT_FALSE(is_terminal_of_launcher({{"PMI_RANK", "0"}, {"SLURM_PTY_PORT", "4711"}}));
  EXPECT_FALSE(is_terminal_of_launcher({{"PMIX_RANK", "0"}, {"SLURM_PTY_PORT", "4711"}}));
}

TEST(Context, BreaksWhatIsToldButNoExcerptOfAFile) {
  FakeMachine machine;
  std::ostringstream out, err;
  Context context{system_files(), system_clock(), machine, out, err, {}, "/nowhere/muster"};
  context.err_is_terminal = true;
  context.err_width = 24;
  EXPECT_EQ(context.fitted_to_err("error: it has ended\n"
                                  "  hint: somebody has killed it\n"
                                  "   12 | timeout: 12 parsec # far away\n"
                                  "      |          ^~~~~~~~~\n"
                                  "      = did you mean `12 sec`?"),
            "error: it has ended\n"
            "  hint: somebody has\n"
            "    killed it\n"
            "   12 | timeout: 12 parsec # far away\n"
            "      |          ^~~~~~~~~\n"
            "      = did you mean\n"
            "        `12 sec`?");
}

}  // namespace
}  // namespace muster::cli
