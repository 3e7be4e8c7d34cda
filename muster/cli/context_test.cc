#include "muster/cli/context.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace muster::cli
