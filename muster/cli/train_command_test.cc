#include "muster/cli/train_command.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "muster/cli/application.h"
#include "muster/cli/fake_machine.h"
#include "muster/testing/temp_folder.h"

namespace muster::cli {
namespace {

// Keeps the job that the worker is asked about.
class AskedMachine final : public FakeMachine {
 public:
  Result<std::string> output_of(const std::vector<std::string>& command,
                                std::chrono::milliseconds) override {
    job_ = system_files().read(command.back()).value_or("");
    return worker_;
  }
  std::string job_;
};

class TrainCommandTest : public ::testing::Test {
 protected:
  TrainCommandTest() {
    std::ofstream(folder_ / "muster-worker") << "";
    std::filesystem::permissions(folder_ / "muster-worker", std::filesystem::perms::owner_all);
    std::ofstream(folder_ / "text.txt") << "some text";
    std::ofstream(folder_ / "job.yaml")
        << "model: {type: gpt}\ndata: {type: text, path: " << (folder_ / "text.txt").native()
        << "}\n";
  }
  ExitCode dry_run(const std::vector<std::string>& options) {
    out_.str("");
    err_.str("");
    std::vector<std::string> words = {"train", "--dry-run", (folder_ / "job.yaml").native()};
    words.insert(words.end(), options.begin(), options.end());
    Context context{system_files(), system_clock(), machine_,          out_,
                    err_,           environment_,   folder_ / "muster"};
    return run(words, context);
  }
  bool trains_on(std::int64_t workers) const {
    return machine_.job_.find("  count: " + std::to_string(workers) + "\n") != std::string::npos;
  }

  testing::TempFolder folder_;
  AskedMachine machine_;
  std::map<std::string, std::string> environment_;
  std::ostringstream out_, err_;
};

TEST_F(TrainCommandTest, APodOfAnIndexedJobHasToKnowHowManyThereAre) {
  for (const char* index : {"0", "1"}) {
    environment_ = {{"JOB_COMPLETION_INDEX", index}};
    EXPECT_EQ(dry_run({}), ExitCode::kUsage) << "each of N pods would train a job of its own";
    EXPECT_NE(err_.str().find("JOB_COMPLETION_INDEX is set, but WORLD_SIZE is not"),
              std::string::npos)
        << err_.str();
  }
  environment_ = {{"JOB_COMPLETION_INDEX", "0"}, {"WORLD_SIZE", "1"}};
  EXPECT_EQ(dry_run({}), ExitCode::kDone) << err_.str();
}

TEST_F(TrainCommandTest, AutoIsOneWorkerACoreButNoMoreThanThereIsWorkFor) {
  machine_.cores_ = 4.5;
  EXPECT_EQ(dry_run({"--workers", "auto"}), ExitCode::kDone) << err_.str();
  EXPECT_TRUE(trains_on(4)) << machine_.job_;
  machine_.cores_ = 64;
  EXPECT_EQ(dry_run({"--workers", "auto"}), ExitCode::kDone) << err_.str();
  EXPECT_TRUE(trains_on(8)) << machine_.job_;
  EXPECT_EQ(dry_run({"-H", "localhost:3"}), ExitCode::kDone) << err_.str();
  EXPECT_TRUE(trains_on(3)) << machine_.job_;
  machine_.cores_ = 0.5;
  EXPECT_EQ(dry_run({"-n", "cpu", "--set", "training.virtual_workers=1"}), ExitCode::kDone);
  EXPECT_TRUE(trains_on(1)) << machine_.job_;
}

TEST_F(TrainCommandTest, HostsHaveRoomForSoManyWorkers) {
  EXPECT_EQ(dry_run({"--hosts", "localhost:2,127.0.0.1"}), ExitCode::kDone) << err_.str();
  EXPECT_TRUE(trains_on(3)) << machine_.job_;
  EXPECT_EQ(dry_run({"-H", "localhost:4", "--workers", "2"}), ExitCode::kDone) << err_.str();
  EXPECT_TRUE(trains_on(2)) << machine_.job_;
  EXPECT_EQ(dry_run({"-H", "localhost", "--workers", "4"}), ExitCode::kDone)
      << "as other launchers have it: " << err_.str();
  EXPECT_EQ(dry_run({"-H", "localhost:2", "--workers", "3"}), ExitCode::kUsage);
  EXPECT_NE(err_.str().find("room for 2 workers"), std::string::npos) << err_.str();
  std::ofstream(folder_ / "hosts") << "localhost slots=3\n";
  EXPECT_EQ(dry_run({"--hostfile", (folder_ / "hosts").native()}), ExitCode::kDone) << err_.str();
  EXPECT_TRUE(trains_on(3)) << machine_.job_;
  EXPECT_EQ(dry_run({"-x", "NO_SUCH_VARIABLE"}), ExitCode::kUsage);
  EXPECT_NE(err_.str().find("-x NO_SUCH_VARIABLE: there is no such"), std::string::npos);
}

TEST_F(TrainCommandTest, HostsOfTheJobFileGiveWayToThoseOfTheCommandLine) {
  std::ofstream(folder_ / "job.yaml", std::ios::app) << "workers: {hosts: [localhost:3]}\n";
  EXPECT_EQ(dry_run({}), ExitCode::kDone) << err_.str();
  EXPECT_TRUE(trains_on(3)) << machine_.job_;
  EXPECT_EQ(dry_run({"--workers", "2"}), ExitCode::kDone) << err_.str();
  EXPECT_TRUE(trains_on(2)) << machine_.job_;
  EXPECT_EQ(dry_run({"-H", "localhost:4"}), ExitCode::kDone) << err_.str();
  EXPECT_TRUE(trains_on(4)) << machine_.job_;
  EXPECT_NE(machine_.job_.find("  hosts: [\"localhost:4\"]\n"), std::string::npos);
  EXPECT_EQ(dry_run({"-H", "localhost"}), ExitCode::kDone) << err_.str();
  EXPECT_TRUE(trains_on(1)) << machine_.job_;
  EXPECT_NE(machine_.job_.find("  hosts: []\n"), std::string::npos) << machine_.job_;
  EXPECT_EQ(dry_run({"--workers", "4"}), ExitCode::kUsage);
  EXPECT_NE(err_.str().find("room for 3 workers"), std::string::npos) << err_.str();
}

TEST_F(TrainCommandTest, AutoscalingFillsHostsAndBeginsWithWhatTheJobSays) {
  const std::vector<std::string> scaled = {"-H", "localhost:2,127.0.0.1:2", "--set",
                                           "autoscaling.policy=throughput", "--set"};
  const auto dry_run_of_most = [&](const std::string& most) {
    auto words = scaled;
    words.push_back("workers.max_workers=" + most);
    return dry_run(words);
  };
  EXPECT_EQ(dry_run_of_most("4"), ExitCode::kDone) << err_.str();
  EXPECT_TRUE(trains_on(1)) << machine_.job_;
  EXPECT_EQ(dry_run_of_most("5"), ExitCode::kUsage);
  EXPECT_NE(err_.str().find("room for 4 workers"), std::string::npos) << err_.str();
}

TEST_F(TrainCommandTest, MoreThanThatIsRefusedWhereItIsAskedFor) {
  EXPECT_EQ(dry_run({"--workers", "64"}), ExitCode::kUsage);
  EXPECT_NE(err_.str().find("| --workers 64\n"), std::string::npos) << err_.str();
}

TEST_F(TrainCommandTest, ADryRunAnswersInJsonWhenAsked) {
  machine_.worker_ = "job         tiny\nmodel       a gpt\n";
  EXPECT_EQ(dry_run({}), ExitCode::kDone);
  EXPECT_EQ(out_.str(), "job         tiny\nmodel       a gpt\n");
  EXPECT_EQ(dry_run({"--log", "json"}), ExitCode::kDone);
  EXPECT_EQ(out_.str(), "{\"job\":\"tiny\",\"model\":\"a gpt\"}\n");
}

TEST_F(TrainCommandTest, ADryRunThatTakesTooLongSaysWhoWasAskedWhatAndWhatHelps) {
  machine_.worker_ = fail(ErrorCode::kTimeout, "it did not answer in time");
  EXPECT_NE(dry_run({}), ExitCode::kDone);
  EXPECT_NE(err_.str().find((folder_ / "muster-worker").native() +
                            " --describe did not answer within 1 min: "),
            std::string::npos)
      << err_.str();
  EXPECT_NE(err_.str().find("a smaller model or training.micro_batch_size answers sooner"),
            std::string::npos);
}

TEST_F(TrainCommandTest, ADryRunSaysWhereNoRunCanBeKept) {
  const Path file = folder_ / "text.txt";
  EXPECT_EQ(dry_run({"--set", "run_folder=" + file.native()}), ExitCode::kEnvironment);
  EXPECT_NE(err_.str().find("run_folder: no run can be kept in " + file.native()),
            std::string::npos)
      << err_.str();
  EXPECT_EQ(dry_run({"--set", "run_folder=" + (folder_ / "runs/here").native()}), ExitCode::kDone);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs"));
}

TEST_F(TrainCommandTest, WeightsOfAnotherKindAreShownWhereTheyAreAskedFor) {
  const std::string weights = "model.weights=" + (folder_ / "text.txt").native();
  EXPECT_EQ(dry_run({"--set", weights}), ExitCode::kUsage);
  EXPECT_NE(err_.str().find("text.txt is a file whose name does not end with .safetensors"),
            std::string::npos)
      << err_.str();
  EXPECT_NE(err_.str().find("| --set " + weights + "\n"), std::string::npos) << err_.str();
}

TEST_F(TrainCommandTest, AWorkerThatCannotBeStartedIsSaidAtOnce) {
  std::filesystem::permissions(folder_ / "muster-worker", std::filesystem::perms::owner_read);
  EXPECT_EQ(dry_run({}), ExitCode::kEnvironment);
  EXPECT_NE(err_.str().find("muster-worker is no program that can be started; chmod +x it"),
            std::string::npos)
      << err_.str();
  std::filesystem::remove(folder_ / "muster-worker");
  EXPECT_EQ(dry_run({}), ExitCode::kEnvironment);
  EXPECT_NE(err_.str().find("muster-worker is missing"), std::string::npos) << err_.str();
}

}  // namespace
}  // namespace muster::cli
