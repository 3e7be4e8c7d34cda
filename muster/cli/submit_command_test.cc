#include "muster/cli/submit_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "muster/cli/application.h"
#include "muster/cli/fake_machine.h"
#include "muster/testing/temp_folder.h"

namespace muster::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Keeps what the scheduler's program is given.
class SchedulingMachine final : public FakeMachine {
 public:
  Result<std::string> output_of(const std::vector<std::string>& command,
                                std::chrono::milliseconds) override {
    command_ = command;
    given_ = system_files().read(command.back()).value_or("");
    return worker_;
  }
  std::vector<std::string> command_;
  std::string given_;
};

class SubmitCommandTest : public ::testing::Test {
 protected:
  SubmitCommandTest() {
    std::ofstream(folder_ / "job.yaml")
        << "model: {type: gpt}\ndata: {type: text, path: text.txt}\nworkers: {count: 3}\n";
    std::ofstream(folder_ / "sbatch") << "";
    std::ofstream(folder_ / "kubectl") << "";
  }
  ExitCode submit(const std::vector<std::string>& words) {
    out_.str("");
    err_.str("");
    std::vector<std::string> all = {"submit"};
    all.insert(all.end(), words.begin(), words.end());
    variables_["PATH"] = path_;
    Context context{system_files(), system_clock(), machine_,          out_,
                    err_,           variables_,     folder_ / "muster"};
    return run(all, context);
  }

  testing::TempFolder folder_;
  const std::string job_ = (folder_ / "job.yaml").native();
  std::map<std::string, std::string> variables_;
  std::string path_ = "/nowhere:" + folder_.path().native();
  SchedulingMachine machine_;
  std::ostringstream out_, err_;
};

TEST_F(SubmitCommandTest, WhatADryRunPrintsIsHandedToSbatch) {
  EXPECT_EQ(submit({"slurm", job_, "--nodes", "2", "--dry-run"}), ExitCode::kDone) << err_.str();
  const std::string script = out_.str();
  EXPECT_THAT(script, AllOf(StartsWith("#!/bin/bash\n"), HasSubstr(" --workers 3 "),
                            HasSubstr("workers.max_workers=6")));
  EXPECT_TRUE(machine_.command_.empty());
  machine_.worker_ = std::string("Submitted batch job 7\n");
  EXPECT_EQ(submit({"slurm", job_, "--nodes", "2"}), ExitCode::kDone) << err_.str();
  EXPECT_EQ(out_.str(), "Submitted batch job 7\n");
  EXPECT_EQ(machine_.given_, script);
  EXPECT_THAT(machine_.command_, ::testing::Contains((folder_ / "sbatch").native()));
  EXPECT_EQ(submit({"slurm", job_, "--log", "json"}), ExitCode::kDone);
  EXPECT_EQ(out_.str(), "{\"submitted\":\"Submitted batch job 7\"}\n");
}

TEST_F(SubmitCommandTest, WhereThereIsNoSchedulerItSaysWhatToDo) {
  path_ = "/nowhere";
  EXPECT_EQ(submit({"slurm", job_}), ExitCode::kEnvironment);
  EXPECT_THAT(err_.str(), AllOf(HasSubstr("there is no sbatch on the PATH of fake"),
                                HasSubstr("`muster submit slurm --dry-run` prints it")));
}

TEST_F(SubmitCommandTest, WhatTheSchedulerRefusesIsToldInItsWords) {
  machine_.worker_ = fail(ErrorCode::kInternal, "sbatch: error: invalid partition specified: x");
  EXPECT_EQ(submit({"slurm", job_, "-p", "x"}), ExitCode::kEnvironment);
  EXPECT_THAT(err_.str(), HasSubstr("sbatch refuses: sbatch: error: invalid partition"));
}

TEST_F(SubmitCommandTest, TheJobIsCheckedAsItWillBeTrained) {
  EXPECT_EQ(submit({"slurm", job_, "--set", "training.epoch=3", "--dry-run"}), ExitCode::kUsage);
  EXPECT_THAT(err_.str(), HasSubstr("did you mean"));
  EXPECT_EQ(submit({"slurm", job_, "--nodes", "3", "--dry-run"}), ExitCode::kUsage);
  EXPECT_THAT(err_.str(), AllOf(HasSubstr("workers.max_workers 9 (--nodes) is more than"),
                                HasSubstr("| --nodes 3\n")));
  EXPECT_EQ(submit({"slurm", job_, "--nodes", "2", "--set", "strategy.type=sharded"}),
            ExitCode::kUsage);
  EXPECT_THAT(err_.str(), HasSubstr("so that all are needed"));
  EXPECT_EQ(submit({"slurm", "/dev/stdin", "--dry-run"}), ExitCode::kUsage);
}

TEST_F(SubmitCommandTest, WhatWouldBeSeveralOptionsOfSbatchIsRefused) {
  for (const std::string word : {"1 2", "a\n#SBATCH --wrap=x", "'x'"}) {
    EXPECT_EQ(submit({"slurm", job_, "--time", word, "--dry-run"}), ExitCode::kUsage) << word;
    EXPECT_THAT(err_.str(), HasSubstr("[submit] --time: expected one word"));
  }
  for (const std::string option : {"mem=3G", "--mem=3G\n"}) {
    EXPECT_EQ(submit({"slurm", job_, "--sbatch=" + option, "--dry-run"}), ExitCode::kUsage);
  }
  EXPECT_EQ(submit({"slurm", job_, "--sbatch=--comment='a b'", "--dry-run"}), ExitCode::kDone);
  EXPECT_THAT(out_.str(), HasSubstr("\n#SBATCH --comment='a b'\n"));
}

TEST_F(SubmitCommandTest, KubernetesGetsTheJobWithAllThatWasSaidOfIt) {
  variables_["MUSTER_SEED"] = "7";
  const std::vector<std::string> words = {"k8s",         job_,    "--image", "r/muster:1",
                                          "--nodes",     "2",     "--set",   "data.path=/data/it's",
                                          "--name",      "a-run", "--claim", "all-runs",
                                          "--namespace", "team"};
  machine_.worker_ = std::string("jobset.jobset.x-k8s.io/a-run created\n");
  EXPECT_EQ(submit(words), ExitCode::kDone) << err_.str();
  EXPECT_EQ(out_.str(), "jobset.jobset.x-k8s.io/a-run created\n");
  EXPECT_THAT(machine_.command_,
              ::testing::IsSupersetOf(
                  {(folder_ / "kubectl").native(), std::string("apply"), std::string("-f")}));
  EXPECT_THAT(machine_.given_,
              AllOf(HasSubstr("  job.yaml: |\n    model: {type: gpt}\n"),
                    HasSubstr(" --set seed=7 --set 'data.path=/data/it'\\''s' --workers 3 "),
                    HasSubstr("  name: a-run\n  namespace: team\n"), HasSubstr("max_workers=6\n"),
                    HasSubstr("claimName: all-runs}"), HasSubstr("        completions: 3\n")));
}

TEST_F(SubmitCommandTest, EveryRunOnKubernetesHasANameOfItsOwn) {
  const std::vector<std::string> words = {"k8s", job_, "--image", "r/muster:1", "--dry-run"};
  EXPECT_EQ(submit(words), ExitCode::kDone) << err_.str();
  const std::string first = out_.str();
  EXPECT_THAT(first, ::testing::ContainsRegex("\n  name: job-[0-9a-f]{6}\n"));
  EXPECT_EQ(submit(words), ExitCode::kDone);
  EXPECT_NE(out_.str(), first);
}

TEST_F(SubmitCommandTest, NamesThatKubernetesDoesNotTakeAreRefused) {
  for (const std::string flag : {"--name", "--namespace", "--claim"}) {
    EXPECT_EQ(submit({"k8s", job_, "--image", "i", flag, "My run", "--dry-run"}), ExitCode::kUsage);
    EXPECT_THAT(err_.str(), AllOf(HasSubstr("[submit] " + flag), HasSubstr("`My run`")));
  }
  EXPECT_EQ(submit({"k8s", job_, "--dry-run"}), ExitCode::kUsage);
  EXPECT_THAT(err_.str(), HasSubstr("--image is required"));
}

TEST_F(SubmitCommandTest, WhatIsNoImageIsRefused) {
  for (const std::string image : {"x y", "", "r/muster:", "https://r/muster"}) {
    EXPECT_EQ(submit({"k8s", job_, "--image", image, "--dry-run"}), ExitCode::kUsage) << image;
    EXPECT_THAT(err_.str(), AllOf(HasSubstr("[submit] --image: expected an image's name"),
                                  HasSubstr("found `" + image + "`")));
    EXPECT_EQ(out_.str(), "");
  }
  EXPECT_EQ(submit({"k8s", job_, "--image", "r/Muster:A", "--dry-run"}), ExitCode::kUsage);
  EXPECT_THAT(err_.str(), HasSubstr("small letters only: `r/muster:a`"));
}

TEST_F(SubmitCommandTest, OfPathsThatBeginSomewhereItIsToldWhereThatIs) {
  const std::string here = machine_.folder().native();
  const std::vector<std::string> slurm = {"slurm", job_, "--dry-run"};
  EXPECT_EQ(submit(slurm), ExitCode::kDone);
  EXPECT_EQ(err_.str().substr(0, err_.str().find(';')),
            "note: [submit] every node looks in " + here +
                " for data.path (text.txt), run_folder (runs)");
  EXPECT_THAT(out_.str(), StartsWith("#!/bin/bash\n"));
  EXPECT_EQ(submit({"slurm", job_, "--dry-run", "--sbatch=--chdir=/work"}), ExitCode::kDone);
  EXPECT_THAT(err_.str(), HasSubstr("every node looks in /work for "));
  EXPECT_EQ(submit({"slurm", job_, "--dry-run", "--set", "data.path=/data/text.txt", "--set",
                    "run_folder=/runs"}),
            ExitCode::kDone);
  EXPECT_EQ(err_.str(), "");

  const std::vector<std::string> pods = {"k8s", job_, "--image", "muster", "--dry-run"};
  EXPECT_EQ(submit(pods), ExitCode::kDone);
  EXPECT_THAT(err_.str(), StartsWith("warning: [submit] pods look for data.path (text.txt) in the "
                                     "working folder of the image (WORKDIR), not in " +
                                     here));
  EXPECT_EQ(submit({"k8s", job_, "--image", "muster", "--dry-run", "--set",
                    "data.path=/data/text.txt", "--set", "run_folder=out"}),
            ExitCode::kDone);
  EXPECT_THAT(err_.str(), StartsWith("note: [submit] run_folder (out) does not count in pods"));
  EXPECT_EQ(err_.str().find("warning"), std::string::npos) << err_.str();
}

}  // namespace
}  // namespace muster::cli
