#include "muster/cli/runs_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "muster/cli/application.h"
#include "muster/cli/fake_machine.h"
#include "muster/observe/record_json.h"
#include "muster/observe/run_list.h"
#include "muster/testing/temp_folder.h"

namespace muster::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct SampleRun {
  std::string leaf;
  std::string rate = "0.1";
  observe::RunState state = observe::RunState::kFinished;
  double loss = 0.5;
  std::string job = "tiny";
};

class RunsCommandTest : public ::testing::Test {
 protected:
  RunsCommandTest() {
    add({.leaf = "20261124T221836Z-3f09a1"});
    add({.leaf = "20261124T231836Z-0ab3c1",
         .rate = "0.05",
         .state = observe::RunState::kFailed,
         .loss = 0.25});
  }

  void add(const SampleRun& sample) {
    const Path root = folder_ / "runs" / sample.job / sample.leaf;
    std::filesystem::create_directories(root / "logs");
    const auto run = *observe::RunFolder::open(files_, root);
    write(run.resolved_job(),
          "name: tiny\nmodel: {type: mlp}\ndata: {type: idx, path: /data}\ntraining: {epochs: 1}\n"
          "optimizer: {learning_rate: " +
              sample.rate + "}\n");
    observe::RunStarted started;
    started.workers = 2;
    observe::Metrics row;
    row.step = Step{1200};
    row.values = {{"train/loss", sample.loss}, {"perf/step_time_s", 0.01}};
    observe::Metrics evaluation;
    evaluation.step = Step{1200};
    evaluation.values = {{"eval/accuracy", 0.875}};
    observe::RunEnded ended;
    ended.step = Step{1200};
    ended.completed = sample.state == observe::RunState::kFinished;
    ended.took = std::chrono::seconds(65);
    ended.results = {{"train/loss", sample.loss}, {"eval/accuracy", 0.875}};
    write(run.metrics(), to_json_line(started) + "\n" + to_json_line(row) + "\n" +
                             to_json_line(evaluation) + "\n" + to_json_line(ended) + "\n");
    ASSERT_TRUE(run.write_summary(files_, ended, sample.state));
  }
  void write(const Path& path, const std::string& text) {
    ASSERT_TRUE(write_atomically(files_, path, text));
  }

  ExitCode muster(std::vector<std::string> words) {
    out_.str("");
    err_.str("");
    Context context{files_, system_clock(), machine_, out_, err_, {}, folder_ / "muster"};
    context.environment["MUSTER_RUN_FOLDER"] = (folder_ / "runs").native();
    context.environment["HOME"] = "/home";
    context.out_is_terminal = lines_of_terminal_ > 0;
    context.out_height = lines_of_terminal_;
    return run(words, context);
  }
  Path run_of(const std::string& leaf) const { return folder_ / "runs/tiny" / leaf; }

  testing::TempFolder folder_;
  Files& files_ = system_files();
  FakeMachine machine_;
  int lines_of_terminal_ = 0;  // none: the output is a pipe
  std::ostringstream out_, err_;
};

TEST_F(RunsCommandTest, ListsRunsTheNewestFirst) {
  EXPECT_EQ(muster({"runs"}), ExitCode::kDone) << err_.str();
  EXPECT_EQ(out_.str(),
            "job   id      began        state     steps  loss     best  time  workers\n"
            "tiny  0ab3c1  11-24 23:18  failed    1,200  0.25  87.50 %  1:05        2\n"
            "tiny  3f09a1  11-24 22:18  finished  1,200   0.5  87.50 %  1:05        2\n");
}

TEST_F(RunsCommandTest, FiltersByJobStateAndValues) {
  EXPECT_EQ(muster({"runs", "--state", "failed,running"}), ExitCode::kDone);
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("0ab3c1"), Not(HasSubstr("3f09a1"))));
  EXPECT_EQ(muster({"runs", "--where", "optimizer.learning_rate=0.10"}), ExitCode::kDone);
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("3f09a1"), Not(HasSubstr("0ab3c1"))));
  EXPECT_EQ(muster({"runs", "--where", "model.type=mlp", "--limit", "1"}), ExitCode::kDone);
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("0ab3c1"), Not(HasSubstr("3f09a1"))));
  EXPECT_EQ(muster({"runs", "--state", "lost"}), ExitCode::kUsage);
  EXPECT_THAT(err_.str(), HasSubstr("expected running, finished, stopped or failed, found `lost`"));
  EXPECT_EQ(muster({"runs", "--job", "large"}), ExitCode::kDone);
  EXPECT_EQ(out_.str(), "no run of a job `large` among the 2 in " + (folder_ / "runs").native() +
                            ", which are of tiny\n");
  EXPECT_EQ(muster({"runs", "--job", "tiiny"}), ExitCode::kDone);
  EXPECT_THAT(out_.str(), HasSubstr("did you mean `tiny`?"));
  EXPECT_EQ(muster({"runs", "--job", "tiny", "--state", "stopped"}), ExitCode::kDone);
  EXPECT_THAT(out_.str(), HasSubstr("no such run among the 2 in "));
}

TEST_F(RunsCommandTest, AValueIsReadAsTheJobFileHasIt) {
  const Path job = run_of("20261124T221836Z-3f09a1") / "resolved.yaml";
  write(job,
        "name: tiny\nmodel: {type: gpt}\ndata: {type: text, path: /home/data, validation_split: "
        "0.2}\n"
        "training: {max_steps: 5}\ncommunication: {timeout: 30s}\n");
  for (const char* where : {"data.validation_split=20%", "data.validation_split=0.20",
                            "communication.timeout=30s", "communication.timeout=0.5 min",
                            "training.max_steps=5", "data.path=~/data", "name=\"tiny\""}) {
    EXPECT_EQ(muster({"runs", "--where", where, "--where", "model.type=gpt"}), ExitCode::kDone);
    EXPECT_THAT(out_.str(), HasSubstr("3f09a1")) << where;
  }
  EXPECT_EQ(muster({"runs", "--where", "data.validation_split=21%"}), ExitCode::kDone);
  EXPECT_THAT(out_.str(), HasSubstr("no such run among the 2 in "));
  EXPECT_EQ(muster({"runs", "--where", "training.max_steps=many"}), ExitCode::kUsage);
  EXPECT_THAT(err_.str(),
              HasSubstr("--where training.max_steps: expected a whole number, at least 1"));
}

TEST_F(RunsCommandTest, AFieldThatIsNoneIsNamedWithTheNearest) {
  EXPECT_EQ(muster({"runs", "--where", "optimizer.learning_rat=0.1"}), ExitCode::kUsage);
  EXPECT_THAT(err_.str(), HasSubstr("did you mean `optimizer.learning_rate`?"));
  EXPECT_EQ(muster({"runs", "--where", "optimizer.type"}), ExitCode::kUsage);
  EXPECT_THAT(err_.str(), HasSubstr("expected a field of the job file and its value"));
}

TEST_F(RunsCommandTest, AnswersInJson) {
  EXPECT_EQ(muster({"runs", "--json"}), ExitCode::kDone);
  const auto first = nlohmann::json::parse(out_.str()).at("runs").at(0);
  EXPECT_EQ(first.at("state"), "failed");
  EXPECT_EQ(first.at("train/loss"), 0.25);
  EXPECT_EQ(first.at("best").at("eval/accuracy"), 0.875);
  EXPECT_EQ(first.at("took_s"), 65);
}

TEST_F(RunsCommandTest, ComparesJobsAndMetrics) {
  const Path page = folder_ / "compared.html";
  EXPECT_EQ(muster({"runs", "compare", "3f09a1", "0ab3c1", "--page", page.native()}),
            ExitCode::kDone)
      << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("job                      tiny 3f09a1  tiny 0ab3c1\n"
                                    "optimizer.learning_rate          0.1         0.05\n"));
  EXPECT_THAT(out_.str(), HasSubstr("train/loss             0.5         0.25\n"));
  EXPECT_THAT(out_.str(), Not(HasSubstr("model.type")));
  const std::string html = *files_.read(page);
  EXPECT_THAT(html, AllOf(HasSubstr("What differs in the jobs"), HasSubstr("Final metrics"),
                          HasSubstr("href=\"runs/tiny/20261124T221836Z-3f09a1/report.html\"")));
  EXPECT_EQ(muster({"runs", "compare", "tiny", "tiny"}), ExitCode::kDone);
  EXPECT_THAT(out_.str(), HasSubstr("the same job\n"));
}

TEST_F(RunsCommandTest, JobsThatCannotBeReadAreNotTheSame) {
  write(run_of("20261124T231836Z-0ab3c1") / "resolved.yaml", "name: [\n");
  EXPECT_EQ(muster({"runs", "compare", "3f09a1", "0ab3c1"}), ExitCode::kDone);
  EXPECT_THAT(err_.str(), HasSubstr("warning: jobs are not compared: "));
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("jobs: not compared\n"), Not(HasSubstr("the same job")),
                                HasSubstr("train/loss             0.5         0.25\n")));
  EXPECT_EQ(muster({"runs", "compare", "3f09a1", "0ab3c1", "--json"}), ExitCode::kDone);
  EXPECT_TRUE(nlohmann::json::parse(out_.str()).at("differences").is_null());
}

TEST_F(RunsCommandTest, LatestIsTheNewestRunOfAll) {
  const auto status = [&] {
    EXPECT_EQ(muster({"status", "latest"}), ExitCode::kDone) << err_.str();
    return out_.str().substr(0, out_.str().find(" in "));
  };
  EXPECT_EQ(status(), "tiny 0ab3c1");
  add({.leaf = "20261125T001836Z-111111", .job = "other"});
  EXPECT_EQ(status(), "other 111111");
  EXPECT_EQ(muster({"status", "lates"}), ExitCode::kEnvironment);
  EXPECT_THAT(err_.str(), HasSubstr("did you mean `latest`?"));
  EXPECT_EQ(muster({"status", "latest", "--run-folder", (folder_ / "none").native()}),
            ExitCode::kEnvironment);
}

TEST_F(RunsCommandTest, ARunIsAPathAnIdOrTheNameOfAJob) {
  std::filesystem::create_symlink("20261124T221836Z-3f09a1", folder_ / "runs/tiny/latest");
  const auto status = [&](const std::string& word) {
    EXPECT_EQ(muster({"status", word}), ExitCode::kDone) << err_.str();
    return out_.str().substr(0, out_.str().find(" in "));
  };
  EXPECT_EQ(status("3f09a1"), "tiny 3f09a1");
  EXPECT_EQ(status("20261124T231836Z-0ab3c1"), "tiny 0ab3c1");
  EXPECT_EQ(status("tiny"), "tiny 0ab3c1");  // the newest, whatever `latest` says
  EXPECT_EQ(status((folder_ / "runs/tiny").native()), "tiny 3f09a1");
  EXPECT_EQ(status((folder_ / "runs/tiny/latest").native()), "tiny 3f09a1");
  EXPECT_EQ(muster({"status", "tini"}), ExitCode::kEnvironment);
  EXPECT_THAT(err_.str(), HasSubstr("did you mean `tiny`?"));
  EXPECT_EQ(muster({"status", folder_.path().native()}), ExitCode::kEnvironment);
  EXPECT_THAT(err_.str(), HasSubstr("is no folder of a run"));
  EXPECT_EQ(muster({"status", "tiny", "--run-folder", "/nonexistent"}), ExitCode::kEnvironment);
  EXPECT_THAT(err_.str(), HasSubstr("there is none; --run-folder says where they are"));
}

TEST_F(RunsCommandTest, LogsAreShownWithWhoWroteThem) {
  write(run_of("20261124T221836Z-3f09a1") / "logs/rank-0.log", "one\ntwo\nthree\n");
  write(run_of("20261124T221836Z-3f09a1") / "logs/rank-11.log", "four\nfive");
  EXPECT_EQ(muster({"logs", "3f09a1", "--tail", "2"}), ExitCode::kDone) << err_.str();
  EXPECT_EQ(out_.str(), "[rank0] two\n[rank0] three\n[rank11] four\n[rank11] five\n");
  EXPECT_EQ(muster({"logs", "3f09a1", "--rank", "0", "-f"}), ExitCode::kDone);
  EXPECT_EQ(out_.str(), "one\ntwo\nthree\n");
  EXPECT_EQ(muster({"logs", "3f09a1", "--rank", "7"}), ExitCode::kEnvironment);
  EXPECT_THAT(err_.str(), HasSubstr("has no log of a worker 7"));
}

TEST_F(RunsCommandTest, TopKnowsHowManyLinesTheTerminalHas) {
  EXPECT_EQ(muster({"top", "3f09a1"}), ExitCode::kDone) << err_.str();
  EXPECT_GT(std::ranges::count(out_.str(), '\n'), 1);
  lines_of_terminal_ = 2;  // the cursor is in the second
  EXPECT_EQ(muster({"top", "3f09a1"}), ExitCode::kDone) << err_.str();
  EXPECT_EQ(std::ranges::count(out_.str(), '\n'), 1) << out_.str();
}

TEST_F(RunsCommandTest, WhatDoesNotRunCannotBeStopped) {
  EXPECT_EQ(muster({"stop", "tiny"}), ExitCode::kEnvironment);
  EXPECT_THAT(err_.str(), HasSubstr("there is nothing to stop"));
  EXPECT_EQ(muster({"stop", "tiny", "--timeout", "soon"}), ExitCode::kUsage);
}

TEST_F(RunsCommandTest, ARunGoesOnByTheJobThatItKeeps) {
  write(folder_ / "muster-worker", "");
  std::filesystem::permissions(folder_ / "muster-worker", std::filesystem::perms::owner_all);
  EXPECT_EQ(muster({"resume", "3f09a1", "--dry-run"}), ExitCode::kEnvironment);
  EXPECT_THAT(err_.str(), HasSubstr("/data"));  // whose data is not there
  EXPECT_EQ(muster({"resume", "3f09a1", "--dry-run", "--set", "optimizer.type=nothing"}),
            ExitCode::kUsage);
  // What followed from the number of workers does not bind another number.
  const Path job = run_of("20261124T221836Z-3f09a1") / "resolved.yaml";
  write(job, *files_.read(job) + "workers: {count: 3, max_workers: 3}\n");
  EXPECT_EQ(muster({"resume", "3f09a1", "--dry-run", "--workers", "1"}), ExitCode::kEnvironment);
  EXPECT_THAT(err_.str(), HasSubstr("/data"));
  EXPECT_EQ(
      muster({"resume", "3f09a1", "--dry-run", "--workers", "1", "--set", "workers.max_workers=3"}),
      ExitCode::kUsage);
  EXPECT_EQ(muster({"resume", "3f09a2", "--dry-run"}), ExitCode::kEnvironment);
  EXPECT_THAT(err_.str(), HasSubstr("did you mean `3f09a1`?"));
}

TEST_F(RunsCommandTest, WhatMlflowLacksStaysUntilItHasArrived) {
  const Path run = run_of("20261124T221836Z-3f09a1");
  EXPECT_EQ(muster({"runs", "mlflow", "3f09a1"}), ExitCode::kDone) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("3f09a1 has nothing that is still to be sent to MLflow"));
  write(run / "mlflow-unsent.jsonl",
        R"({"tracking_uri":"http://127.0.0.1:1","experiment":"e","name":"n","id":"3f09a1",)"
        R"("start":1000000,"params":[],"tags":[]})"
        "\n");
  EXPECT_EQ(muster({"runs", "mlflow", "3f09a1"}), ExitCode::kEnvironment);
  EXPECT_THAT(err_.str(), HasSubstr("http://127.0.0.1:1"));
  EXPECT_TRUE(files_.exists(run / "mlflow-unsent.jsonl"));
}

}  // namespace
}  // namespace muster::cli
