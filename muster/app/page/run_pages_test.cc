#include "muster/app/page/run_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/app/debug/live_report.h"
#include "muster/observe/record_json.h"
#include "muster/observe/run_folder.h"
#include "muster/testing/temp_folder.h"

namespace muster::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class RunPagesTest : public ::testing::Test {
 protected:
  RunPagesTest() {
    std::filesystem::create_directories(run_ / "logs");
    std::filesystem::create_directories(runs_ / "secret");
    write(runs_ / "secret/file", "not for everybody");
    observe::RunStarted started;
    started.name = "a & b";
    observe::Metrics row;
    row.step = Step{1};
    row.values = {{"train/loss", 2}};
    observe::Metrics next = row;
    next.step = Step{2};
    write(run_ / "metrics.jsonl",
          to_json_line(started) + "\n" + to_json_line(row) + "\n" + to_json_line(next) + "\n" +
              to_json_line(observe::Notice{observe::Severity::kWarning, "worker 1 is <slow>"}) +
              "\n");
    write(run_ / "logs/rank-0.log", "began\n");
  }
  void write(const Path& path, const std::string& text) {
    ASSERT_TRUE(write_atomically(system_files(), path, text));
  }
  std::string get(std::string_view path) const {
    const auto answer = pages_.answer(path);
    return answer ? answer->body : "nothing";
  }

  testing::TempFolder runs_;
  const Path run_ = runs_ / "a & b/20261124T221836Z-3f09a1";
  const RunPages pages_{system_files(), runs_.path()};
};

TEST_F(RunPagesTest, TheListLeadsToEveryRun) {
  EXPECT_THAT(get("/"),
              AllOf(HasSubstr("href=\"/run/a%20%26%20b/20261124T221836Z-3f09a1\">a &amp; b 3f09a1"),
                    HasSubstr("class=bad>failed")));
}

TEST_F(RunPagesTest, WhereThereIsNoRunTheListSaysSo) {
  EXPECT_THAT(get("/"), Not(HasSubstr("none yet")));
  std::filesystem::remove_all(run_.parent_path());
  EXPECT_THAT(get("/"), HasSubstr("none yet: muster train JOB makes one"));
}

TEST_F(RunPagesTest, ARunHasItsCurvesWhatHappenedAndItsLog) {
  EXPECT_THAT(get("/run/a & b/20261124T221836Z-3f09a1"),
              AllOf(HasSubstr("<svg"), HasSubstr("failed: no end was recorded"),
                    HasSubstr("<td class=bad>worker 1 is &lt;slow&gt;"), HasSubstr("began\n"),
                    Not(HasSubstr(">Workers<"))));
}

TEST_F(RunPagesTest, WhatWorkersDoIsShownWhileTheRunGoesOn) {
  write(run_ / "live.json", to_json(std::vector<LiveWorker>{{.worker = 3,
                                                             .rank = 1,
                                                             .host = "here",
                                                             .pid = 7,
                                                             .step = 1234,
                                                             .phase = "updating",
                                                             .operation = {},
                                                             .shares = {0, 0.75, 0.25, 0, 0},
                                                             .resident = 1 << 20}}));
  const auto page = [&] { return get("/run/a & b/20261124T221836Z-3f09a1"); };
  EXPECT_THAT(page(), Not(HasSubstr(">Workers<")));  // left by a launcher that was killed
  const auto lock = observe::RunFolder::open(system_files(), run_)->lock(system_files());
  ASSERT_TRUE(lock);
  EXPECT_THAT(page(), AllOf(HasSubstr("class=\"state good\">running<"), HasSubstr(">Workers<"),
                            HasSubstr("1,234"), HasSubstr("1.0 MiB"), HasSubstr("compute 75 %"),
                            HasSubstr("wait 25 %")));
}

TEST_F(RunPagesTest, NothingElseIsThere) {
  for (const char* path : {"/secret/file", "/run/secret", "/run/../secret/file", "/run/",
                           "/metrics", "/run/a & b/20261124T221836Z-3f09a1/metrics.jsonl"})
    EXPECT_EQ(get(path), "nothing") << path;
}

}  // namespace
}  // namespace muster::app
