#include "muster/cli/slurm_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

SlurmJob on_nodes(std::int32_t nodes) {
  return {.program = "/opt/muster/bin/muster",
          .words = {"jobs/gpt.yaml"},
          .name = "gpt",
          .run_folder = "runs",
          .nodes = nodes,
          .workers_per_node = 2,
          .max_workers = 2 * nodes};
}

TEST(SlurmScript, TheFirstNodeLaunchesAndTheOthersJoin) {
  const std::string script = slurm_script(on_nodes(4));
  EXPECT_THAT(script, StartsWith("#!/bin/bash\n"));
  EXPECT_THAT(script, AllOf(HasSubstr("\n#SBATCH --job-name=gpt\n"),
                            HasSubstr("\n#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=2\n"),
                            HasSubstr("\n#SBATCH --no-kill\n")));
  EXPECT_THAT(script, HasSubstr("\ntrain=(\"$muster\" train jobs/gpt.yaml --workers 2 --set "
                                "\"name=$name\" \\\n  --set \"workers.listen=$address:0\" --set "
                                "workers.max_workers=8)\n"));
  EXPECT_THAT(script, HasSubstr("\nsrun --nodes=3 --relative=1 --ntasks=6 --ntasks-per-node=2 "));
}

TEST(SlurmScript, OnOneNodeNobodyElseJoins) {
  EXPECT_THAT(slurm_script(on_nodes(1)),
              AllOf(HasSubstr("\n#SBATCH --nodes=1\n"), Not(HasSubstr("srun")),
                    Not(HasSubstr("listen")), Not(HasSubstr("others")), Not(HasSubstr("$key"))));
}

TEST(SlurmScript, TheEndOfTheTimeIsAnnouncedToTheLauncherWhichGoesOnInTheQueue) {
  EXPECT_THAT(slurm_script(on_nodes(1)),
              AllOf(HasSubstr("\n#SBATCH --signal=B:USR1@"), HasSubstr("\n#SBATCH --requeue\n"),
                    HasSubstr("\ntrap 'kill -USR1 \"$launcher\" 2> /dev/null' USR1\n"),
                    HasSubstr("scontrol requeue"), HasSubstr("train+=(--resume)")));
}

TEST(SlurmScript, WhatAPersonWroteIsQuoted) {
  SlurmJob job = on_nodes(2);
  job.program = "/opt/my tools/muster";
  job.words = {"whoever's job.yaml", "--set", "data.path=$HOME/a b"};
  job.name = "whoever's job";
  job.run_folder = "all `runs`";
  const std::string script = slurm_script(job);
  EXPECT_THAT(script, HasSubstr("\nmuster='/opt/my tools/muster'\nname=whoever-s-job-$SLURM_JOB_ID"
                                "\nruns='all `runs`'\n"));
  EXPECT_THAT(script, HasSubstr(R"( train 'whoever'\''s job.yaml' --set 'data.path=$HOME/a b' )"));
  EXPECT_THAT(script, HasSubstr("\n#SBATCH --job-name=whoever-s-job\n"));
}

TEST(SlurmScript, ProcessorsAreLanes) {
  SlurmJob job = on_nodes(2);
  EXPECT_THAT(slurm_script(job), AllOf(Not(HasSubstr("cpus")), Not(HasSubstr("lanes"))));
  job.cpus_per_worker = 6;
  EXPECT_THAT(slurm_script(job), AllOf(HasSubstr("\n#SBATCH --cpus-per-task=6\n"),
                                       HasSubstr(" --cpus-per-task=6 --no-kill "),
                                       HasSubstr(" --set training.lanes=6 ")));
}

TEST(SlurmScript, OtherOptionsCountLast) {
  SlurmJob job = on_nodes(2);
  job.options = {"--time=1:00:00", "--signal=B:USR1@600"};
  EXPECT_THAT(slurm_script(job), HasSubstr("\n#SBATCH --no-kill\n#SBATCH --time=1:00:00\n#SBATCH "
                                           "--signal=B:USR1@600\n\n"));
}

}  // namespace
}  // namespace muster::cli
