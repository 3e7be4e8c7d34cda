#include "muster/cluster/started_by.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace muster::cluster {
namespace {

using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

Result<StartedBy> started_with(Variables variables, std::int32_t parent = 7) {
  return who_started(
      [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        if (found == variables.end()) return std::nullopt;
        return found->second;
      },
      parent);
}

StartedBy must(const Result<StartedBy>& by) {
  EXPECT_TRUE(by) << by.error().message;
  return by.value_or(StartedBy{});
}

std::string refusal(Variables variables) {
  const auto by = started_with(std::move(variables));
  EXPECT_FALSE(by);
  if (by) return "";
  EXPECT_EQ(by.error().code, ErrorCode::kInvalid);
  return by.error().message;
}

TEST(StartedBy, NobodyIsNoError) {
  EXPECT_EQ(started_with({}).error().code, ErrorCode::kNotFound);
  // A batch script of Slurm's is no rank of anything.
  EXPECT_EQ(started_with({{"SLURM_PROCID", "0"}, {"SLURM_JOB_ID", "12"}, {"SLURM_NTASKS", "4"}})
                .error()
                .code,
            ErrorCode::kNotFound);
}

TEST(StartedBy, WhoLooksForARankIsToldHowItIsStarted) {
  const auto by = must(started_with(
      {{"RANK", "0"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "head"}, {"MASTER_PORT", "29501"}}));
  EXPECT_EQ(how_ranks_are_started(by),
            "each is to be started like this one, with its RANK, WORLD_SIZE=3, MASTER_ADDR=head "
            "and MASTER_PORT=29501");
  EXPECT_THAT(
      how_ranks_are_started({.launcher = "Slurm", .ranks = 8, .meeting = {}, .attempt = {}}),
      HasSubstr("Slurm starts all 8"));
}

TEST(StartedBy, TorchrunSaysEverything) {
  const Variables variables{{"RANK", "5"},
                            {"WORLD_SIZE", "8"},
                            {"LOCAL_RANK", "1"},
                            {"LOCAL_WORLD_SIZE", "4"},
                            {"MASTER_ADDR", "head"},
                            {"MASTER_PORT", "1234"},
                            {"TORCHELASTIC_RUN_ID", "night"},
                            {"TORCHELASTIC_RESTART_COUNT", "2"},
                            {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
  const StartedBy by = must(started_with(variables));
  EXPECT_EQ(by.launcher, "torchrun");
  EXPECT_EQ(by.rank, 5);
  EXPECT_EQ(by.ranks, 8);
  EXPECT_EQ(by.meeting, (net::Address{"head", 1234}));
  EXPECT_TRUE(by.is_served);
  EXPECT_EQ(by.attempt, "night.2");
}

TEST(StartedBy, MusterLaunchOnSeveralHostsComesFirst) {
  const StartedBy by = must(started_with({{"RANK", "3"},
                                          {"WORLD_SIZE", "4"},
                                          {"LOCAL_WORLD_SIZE", "2"},
                                          {"MASTER_ADDR", "head"},
                                          {"MASTER_PORT", "29500"},
                                          {"MUSTER_LAUNCH", "night"},
                                          {"TORCHELASTIC_RESTART_COUNT", "1"},
                                          {"SLURM_PROCID", "1"},
                                          {"SLURM_STEP_NUM_TASKS", "2"}}));
  EXPECT_EQ(by.launcher, "muster launch");
  EXPECT_EQ(by.attempt, "night") << "the store is rank 0's, and gone with it";
  EXPECT_FALSE(by.is_served);
}

TEST(StartedBy, TheSameVariablesSetByHandDo) {
  const StartedBy by =
      must(started_with({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "10.0.0.1"}}));
  EXPECT_EQ(by.launcher, "RANK and WORLD_SIZE");
  EXPECT_EQ(by.meeting, (net::Address{"10.0.0.1", 29500}));
  EXPECT_FALSE(by.is_served);
}

TEST(StartedBy, OpenMpiOnOneHostMeetsThereByItsJob) {
  Variables variables{{"OMPI_COMM_WORLD_RANK", "1"},
                      {"OMPI_COMM_WORLD_SIZE", "3"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
                      {"PMIX_RANK", "1"},
                      {"PMIX_NAMESPACE", "1278672897"},
                      // Of the daemon that srun has started.
                      {"SLURM_PROCID", "0"},
                      {"SLURM_STEP_NUM_TASKS", "1"}};
  const StartedBy by = must(started_with(variables));
  EXPECT_EQ(by.launcher, "Open MPI");
  EXPECT_EQ(by.rank, 1);
  EXPECT_EQ(by.ranks, 3);
  EXPECT_EQ(by.meeting.host, "127.0.0.1");
  EXPECT_GE(by.meeting.port, 61000);
  variables["OMPI_COMM_WORLD_RANK"] = "2";
  EXPECT_EQ(must(started_with(variables, 8)).meeting, by.meeting) << "another rank of the same";
  variables["PMIX_NAMESPACE"] = "1278672898";
  EXPECT_NE(must(started_with(variables)).meeting, by.meeting) << "another job";
}

TEST(StartedBy, AnMpiOnSeveralHostsNeedsTheFirstOnes) {
  Variables variables{{"OMPI_COMM_WORLD_RANK", "1"},
                      {"OMPI_COMM_WORLD_SIZE", "4"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                      {"PMIX_NAMESPACE", "1"}};
  const std::string why = refusal(variables);
  EXPECT_THAT(why, HasSubstr("Open MPI"));
  EXPECT_THAT(why, HasSubstr("MASTER_ADDR is not; set it to the host of rank 0"));
  variables["MASTER_ADDR"] = "head";
  EXPECT_EQ(must(started_with(variables)).meeting.host, "head");
}

TEST(StartedBy, MpichKnowsItsRanksByTheirParent) {
  const Variables variables{{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"}};
  const StartedBy by = must(started_with(variables, 77));
  EXPECT_EQ(by.launcher, "MPICH");
  EXPECT_EQ(must(started_with(variables, 77)).meeting, by.meeting);
  EXPECT_NE(must(started_with(variables, 78)).meeting, by.meeting);
  // On several hosts each has a parent of its own.
  Variables on_two{{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}, {"MPI_LOCALNRANKS", "2"}};
  EXPECT_THAT(refusal(on_two), HasSubstr("MASTER_ADDR is not"));
  on_two["MASTER_ADDR"] = "head";
  const StartedBy one = must(started_with(on_two, 77));
  on_two["PMI_RANK"] = "2";
  const StartedBy other = must(started_with(on_two, 78));
  EXPECT_EQ(one.meeting, (net::Address{"head", 29500}));
  EXPECT_EQ(other.meeting, one.meeting);
  EXPECT_EQ(other.attempt, one.attempt);
}

TEST(StartedBy, SlurmListsItsHosts) {
  Variables variables{{"SLURM_PROCID", "3"},         {"SLURM_STEP_NUM_TASKS", "4"},
                      {"SLURM_NTASKS", "9"},         {"SLURM_JOB_ID", "12"},
                      {"SLURM_STEP_ID", "1"},        {"SLURM_STEP_NODELIST", "n[03-04]"},
                      {"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_JOB_NODELIST", "n[01-09]"}};
  const StartedBy by = must(started_with(variables));
  EXPECT_EQ(by.launcher, "Slurm");
  EXPECT_EQ(by.rank, 3);
  EXPECT_EQ(by.ranks, 4) << "of the step, not of the whole job";
  EXPECT_EQ(by.meeting.host, "n03");
  EXPECT_EQ(by.attempt, "12.1");
  variables["SLURM_STEP_NUM_NODES"] = "1";
  EXPECT_EQ(must(started_with(variables)).meeting.host, "127.0.0.1");
}

TEST(StartedBy, AnyPmiWillDo) {
  Variables variables{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"PMI_LOCAL_SIZE", "2"}};
  const StartedBy by = must(started_with(variables, 77));
  EXPECT_EQ(by.launcher, "PMI");
  EXPECT_EQ(by.rank, 1);
  EXPECT_EQ(by.ranks, 2);
  EXPECT_EQ(by.meeting.host, "127.0.0.1");
  EXPECT_EQ(must(started_with(variables, 77)).meeting, by.meeting);
  EXPECT_NE(must(started_with(variables, 78)).meeting, by.meeting);
  variables.erase("PMI_LOCAL_SIZE");
  EXPECT_THAT(refusal(variables), HasSubstr("MASTER_ADDR is not; set it to the host of rank 0"));
  variables["MASTER_ADDR"] = "head";
  EXPECT_EQ(must(started_with(variables)).meeting, (net::Address{"head", 29500}));
  variables.erase("PMI_SIZE");
  EXPECT_THAT(refusal(variables), HasSubstr("PMI_RANK is set, but PMI_SIZE is not"));
}

TEST(StartedBy, SaysWhetherAnMpiCanBeginThere) {
  const Variables openmpi{{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}};
  const Variables mpich{{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "1"}};
  const Variables slurm{{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}};
  for (Variables variables : {openmpi, mpich, slurm}) {
    variables["MASTER_ADDR"] = "head";
    EXPECT_TRUE(must(started_with(variables)).speaks_mpi);
  }
  // torchrun's ranks below an mpirun's have that rank's variables, all the same ones.
  Variables torchrun = openmpi;
  torchrun.insert({{"RANK", "0"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "head"}});
  EXPECT_FALSE(must(started_with(torchrun)).speaks_mpi);
}

TEST(StartedBy, SaysWhetherAllAreOnOneHost) {
  Variables variables{{"OMPI_COMM_WORLD_RANK", "1"},
                      {"OMPI_COMM_WORLD_SIZE", "4"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                      {"MASTER_ADDR", "head"}};
  EXPECT_TRUE(must(started_with(variables)).shares_host);
  variables["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  EXPECT_FALSE(must(started_with(variables)).shares_host);
}

// One rank of several must not take itself for the only one.
TEST(StartedBy, PmixHasToBeToldHowMany) {
  Variables variables{{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "x"}};
  EXPECT_THAT(refusal(variables),
              HasSubstr("started by PMIx: PMIX_RANK is set, but WORLD_SIZE is not; set it to how "
                        "many ranks there are (1: each is alone)"));
  variables["WORLD_SIZE"] = "2";
  EXPECT_THAT(refusal(variables), HasSubstr("MASTER_ADDR is not"));
  variables["MASTER_ADDR"] = "head";
  const StartedBy by = must(started_with(variables));
  EXPECT_EQ(by.rank, 1);
  EXPECT_EQ(by.ranks, 2);
  EXPECT_EQ(by.attempt, "x");
  variables["PMIX_NAMESPACE"] = "y";
  EXPECT_NE(must(started_with(variables)).meeting, by.meeting) << "another job";
}

TEST(StartedBy, SlurmSpeaksPmiToo) {
  const Variables slurm{{"SLURM_PROCID", "1"},
                        {"SLURM_STEP_NUM_TASKS", "2"},
                        {"SLURM_STEP_NUM_NODES", "1"},
                        {"SLURM_JOB_ID", "12"}};
  Variables pmi2{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}};
  Variables pmix{{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "slurm.pmix.12.0"}};
  for (Variables* asked : {&pmi2, &pmix}) {
    asked->insert(slurm.begin(), slurm.end());
    EXPECT_EQ(must(started_with(*asked)).launcher, "Slurm");
  }
}

TEST(StartedBy, AnIndexedJobHasToBeToldMore) {
  Variables variables{{"JOB_COMPLETION_INDEX", "2"}};
  EXPECT_THAT(refusal(variables), HasSubstr("WORLD_SIZE is not"));
  variables["WORLD_SIZE"] = "3";
  EXPECT_THAT(refusal(variables), HasSubstr("MASTER_ADDR is not"));
  variables["MASTER_ADDR"] = "train-0.train";
  EXPECT_EQ(must(started_with(variables)).meeting, (net::Address{"train-0.train", 29500}));
}

TEST(StartedBy, KubeflowsVariablesAreNodes) {
  Variables variables{{"PET_NODE_RANK", "1"},
                      {"PET_NNODES", "2"},
                      {"PET_MASTER_ADDR", "master"},
                      {"PET_MASTER_PORT", "23456"}};
  const StartedBy by = must(started_with(variables));
  EXPECT_EQ(by.rank, 1);
  EXPECT_EQ(by.meeting, (net::Address{"master", 23456}));
  variables["PET_NPROC_PER_NODE"] = "4";
  EXPECT_THAT(refusal(variables), HasSubstr("PET_NPROC_PER_NODE is 4, and this is one process"));
  variables["PET_NPROC_PER_NODE"] = "auto";
  EXPECT_THAT(refusal(variables), HasSubstr("PET_NPROC_PER_NODE is auto"));
  // Under torchrun, which has read them.
  variables.insert({{"RANK", "1"},
                    {"WORLD_SIZE", "8"},
                    {"TORCHELASTIC_RUN_ID", "none"},
                    {"TORCHELASTIC_RESTART_COUNT", "1"}});
  EXPECT_EQ(must(started_with(variables)).attempt, "none") << "static: rank 0 keeps the store";
}

TEST(StartedBy, NonsenseIsNamed) {
  EXPECT_THAT(refusal({{"RANK", "x"}, {"WORLD_SIZE", "2"}}),
              HasSubstr("RANK is \"x\"; expected a number of at least 0"));
  EXPECT_THAT(refusal({{"RANK", "0"}, {"WORLD_SIZE", "0"}}),
              HasSubstr("WORLD_SIZE is \"0\"; expected a number of at least 1"));
  EXPECT_THAT(refusal({{"RANK", "2"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}),
              HasSubstr("RANK is 2, and WORLD_SIZE only 2"));
  EXPECT_THAT(refusal({{"RANK", "0"}}), HasSubstr("WORLD_SIZE is not"));
  EXPECT_THAT(
      refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "70000"}}),
      HasSubstr("MASTER_PORT is 70000; a port is at most 65535"));
}

TEST(StartedBy, FirstHostsOfLists) {
  for (const auto& [list, first] : Variables{{"one", "one"},
                                             {"a,b", "a"},
                                             {"n[1-3]", "n1"},
                                             {"n[07,09],x", "n07"},
                                             {"n[5]", "n5"},
                                             {"n[1-2].site,m", "n1.site"},
                                             {"a,n[1-2]", "a"},
                                             {"n[1-2]b", "n1b"},
                                             {"", ""}})
    EXPECT_EQ(first_host(list), first) << list;
}

}  // namespace
}  // namespace muster::cluster
