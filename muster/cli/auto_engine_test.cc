#include "muster/cli/auto_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "muster/app/engines/testing/fabric_files.h"
#include "muster/cli/fake_machine.h"

namespace muster::cli {
namespace {

using ::testing::HasSubstr;

constexpr const char* kEngine = "communication.engine";

// Four ranks on two hosts, of an Open MPI that muster has a module for, on InfiniBand.
class AutoEngine : public ::testing::Test {
 protected:
  AutoEngine() {
    testing::add_verbs_device(files_, {.name = "mlx5_0"});
    EXPECT_TRUE(files_.create_folders(module_.parent_path()));
    EXPECT_TRUE(write_atomically(files_, module_, ""));
    request_.options.flags = {{"Open MPI", "workers.count", "4"}};
    request_.options.sets = {"communication.engine=auto"};
  }

  ChosenJob choose(const cluster::StartedBy* by) {
    std::erase_if(request_.options.flags,  // an earlier choice
                  [](const job::FlagValue& flag) { return flag.field == kEngine; });
    const auto checked = check_job(kText, request_.job, request_.options);
    EXPECT_TRUE(checked.job) << render(checked.errors);
    if (!checked.job) return {};
    auto chosen = choose_engine(request_, *checked.job, by, context_);
    EXPECT_TRUE(chosen) << chosen.error().message;
    return chosen ? *std::move(chosen) : ChosenJob{};
  }
  ChosenJob choose() { return choose(&by_); }

  // Why it is native.
  std::string refusal(const ChosenJob& chosen) {
    EXPECT_EQ(chosen.job.spec.communication.engine, job::EngineKind::kNative);
    return chosen.why.size() == 1 ? chosen.why.front() : "?";
  }

  static constexpr const char* kText = "model: {type: mlp}\ndata: {type: idx, path: /data}\n";
  const Path module_ = "/opt/muster/lib/muster/mpi-openmpi.so";
  testing::MemoryFiles files_;
  FakeMachine machine_;
  std::ostringstream out_, err_;
  Context context_{files_,
                   system_clock(),
                   machine_,
                   out_,
                   err_,
                   {{"OMPI_COMM_WORLD_SIZE", "4"}},
                   "/opt/muster/bin/muster"};
  cluster::StartedBy by_{.launcher = "Open MPI",
                         .ranks = 4,
                         .meeting = {"head", 29500},
                         .speaks_mpi = true,
                         .attempt = "1"};
  PlanRequest request_{.job = "job.yaml", .options = {}};
};

TEST_F(AutoEngine, IsMpiOnAFastFabric) {
  const ChosenJob chosen = choose();
  EXPECT_EQ(chosen.job.spec.communication.engine, job::EngineKind::kMpi);
  EXPECT_EQ(describe(chosen.job.origins.at(kEngine)), "communication.engine: auto");
  EXPECT_EQ(chosen.job.spec.workers.max_restarts, 0) << "as with mpi that is asked for";
  EXPECT_THAT(chosen.why, ::testing::ElementsAre(
                              "communication.engine auto: mpi; Open MPI has started 4 processes, "
                              "and fake has InfiniBand mlx5_0 port 1 (100 Gb/sec (4X EDR))"));
}

TEST_F(AutoEngine, IsAPartOfWhatIsChosenAfterIt) {
  choose();
  const auto again = check_job(kText, request_.job, request_.options);
  ASSERT_TRUE(again.job) << render(again.errors);
  EXPECT_EQ(again.job->spec.communication.engine, job::EngineKind::kMpi);
}

TEST_F(AutoEngine, SaysNothingWhereTheJobDoes) {
  request_.options.sets = {"communication.engine=native"};
  const ChosenJob chosen = choose();
  EXPECT_TRUE(chosen.why.empty());
  EXPECT_EQ(describe(chosen.job.origins.at(kEngine)), "--set");
}

TEST_F(AutoEngine, IsNativeWhereNoMpiHasStartedIt) {
  const std::string told = "native; no MPI has started processes for this job";
  EXPECT_THAT(refusal(choose(nullptr)), HasSubstr(told));
  by_.speaks_mpi = false;  // torchrun below an mpirun
  EXPECT_THAT(refusal(choose()), HasSubstr(told));
  by_.speaks_mpi = true;
  context_.environment.clear();  // srun without --mpi
  const ChosenJob chosen = choose();
  EXPECT_THAT(refusal(chosen), HasSubstr(told));
  EXPECT_EQ(describe(chosen.job.origins.at(kEngine)), "communication.engine: auto");
  EXPECT_GT(chosen.job.spec.workers.max_restarts, 0);
}

TEST_F(AutoEngine, IsNativeOnOneHost) {
  by_.shares_host = true;
  EXPECT_THAT(refusal(choose()), HasSubstr("all 4 processes that Open MPI has started are on one "
                                           "host, and share memory"));
}

TEST_F(AutoEngine, IsNativeWithoutTheModule) {
  ASSERT_TRUE(files_.remove_all(module_));
  EXPECT_THAT(refusal(choose()), HasSubstr(module_.string()));
}

TEST_F(AutoEngine, IsNativeWithoutAFastFabric) {
  testing::add_verbs_device(files_, {.name = "mlx5_0", .state = "1: DOWN"});
  EXPECT_THAT(refusal(choose()), HasSubstr("no fast fabric is up on fake"));
  testing::add_verbs_device(files_, {.name = "mlx5_1", .link_layer = "Ethernet"});
  EXPECT_THAT(choose().why.front(), HasSubstr("mpi; Open MPI has started 4 processes, and fake has "
                                              "RoCE mlx5_1 port 1"));
}

TEST_F(AutoEngine, IsNativeWhereTheJobAllowsNoMpi) {
  for (const auto* asked :
       {"workers.max_restarts=2", "workers.min_workers=2", "communication.transport=tcp"}) {
    request_.options.sets = {"communication.engine=auto", asked};
    const std::string why = refusal(choose());
    EXPECT_THAT(why, HasSubstr("of which none comes or goes")) << asked;
    EXPECT_THAT(why, HasSubstr(std::string(asked).substr(0, std::string(asked).find('='))));
  }
  request_.options.flags = {{"Open MPI", "workers.count", "3"}};
  request_.options.sets = {"communication.engine=auto", "workers.standbys=1"};
  EXPECT_THAT(refusal(choose()), HasSubstr("workers.standbys is 1 (--set)"));
}

TEST_F(AutoEngine, IsNativeWhereSomeProcessesHaveNoWorker) {
  request_.options.flags = {{"--workers", "workers.count", "2"}};
  EXPECT_THAT(refusal(choose()), HasSubstr("MPI needs all 4 processes that Open MPI has started, "
                                           "and 2 have workers"));
}

}  // namespace
}  // namespace muster::cli
