#include "muster/app/launch/run_sinks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "muster/testing/temp_folder.h"

namespace muster::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class RunSinksTest : public ::testing::Test {
 protected:
  Result<RunSinks> open(bool traces) {
    const auto run = observe::RunFolder::open(files_, folder_.path());
    return open_run_sinks(files_, *run, traces, create_null_logger());
  }
  std::vector<std::string> there() {
    auto names = *files_.list(folder_.path());
    std::ranges::sort(names);
    return names;
  }
  void expect_refused(bool traces, const std::string& name, const std::string& cure) {
    const auto before = there();
    const auto sinks = open(traces);
    ASSERT_FALSE(sinks);
    EXPECT_EQ(sinks.error().code, ErrorCode::kUnavailable);
    EXPECT_THAT(sinks.error().message,
                AllOf(HasSubstr("[train] what the run measures cannot be recorded"),
                      HasSubstr((folder_ / name).native()), HasSubstr(cure)));
    EXPECT_EQ(there(), before);
  }

  testing::TempFolder folder_;
  Files& files_ = system_files();
};

TEST_F(RunSinksTest, AreOfThreeFilesAndATrace) {
  {
    const auto sinks = open(false);
    ASSERT_TRUE(sinks) << sinks.error().message;
    EXPECT_EQ(sinks->kept.size(), 3u);
    EXPECT_FALSE(sinks->trace_path);
    EXPECT_EQ(there().size(), 3u);
  }
  const auto traced = open(true);
  ASSERT_TRUE(traced) << traced.error().message;
  EXPECT_TRUE(traced->trace);
  EXPECT_TRUE(files_.exists(*traced->trace_path));
}

TEST_F(RunSinksTest, WhatCannotBeOpenedIsNamedWithWhatToDoAndNothingIsLeft) {
  ASSERT_TRUE(open(false));  // an earlier start
  for (const std::string name : {"metrics.jsonl", "ledger.jsonl"}) {
    std::filesystem::rename(folder_ / name, folder_ / "aside");
    std::filesystem::create_directory(folder_ / name);
    expect_refused(false, name, "name another run_folder");
    std::filesystem::remove(folder_ / name);
    std::filesystem::rename(folder_ / "aside", folder_ / name);
  }
  std::ofstream(folder_ / "trace") << "in the way";
  expect_refused(true, "trace", "train without --trace");
  EXPECT_TRUE(open(false));
}

}  // namespace
}  // namespace muster::app
