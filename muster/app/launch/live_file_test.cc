#include "muster/app/launch/live_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "muster/base/pause.h"
#include "muster/observe/environment.h"
#include "muster/testing/temp_folder.h"

namespace muster::app {
namespace {

cluster::MemberInfo member(std::int32_t worker, std::int32_t rank, const std::string& host) {
  cluster::MemberInfo member;
  member.rank = Rank{rank};
  member.info.worker = worker;
  member.info.host = host;
  member.info.pid = ::getpid();
  return member;
}

TEST(Activity, IsWhatAHeartbeatSays) {
  const std::string gradients = "computing and reducing gradients";
  EXPECT_EQ(activity_of({Step{1}, "waiting for data", {}}), Activity::kData);
  EXPECT_EQ(activity_of({Step{1}, gradients, "backward of slice 3 beside all_reduce sum F32 [8]"}),
            Activity::kCompute);
  EXPECT_EQ(activity_of({Step{1}, gradients, ""}), Activity::kCompute);
  EXPECT_EQ(activity_of({Step{1}, gradients, "all_reduce sum F32 [8] (gradients/3)"}),
            Activity::kWait);
  EXPECT_EQ(activity_of({Step{1}, "updating", {}}), Activity::kUpdate);
  EXPECT_EQ(activity_of({Step{1}, "evaluating", {}}), Activity::kOther);
}

TEST(LiveFile, SaysWhatEachMemberDoesAndGoesWithItsRun) {
  const testing::TempFolder folder;
  const Path path = folder / "live.json";
  const auto read = [&] {
    const auto text = system_files().read(path);
    return text ? live_workers_from_json(*text).value_or(std::vector<LiveWorker>{})
                : std::vector<LiveWorker>{};
  };
  {
    LiveFile live(system_files(), path, system_clock());
    live.set_members(
        {member(4, 0, observe::read_environment(system_files()).host), member(2, 1, "elsewhere")});
    const cluster::Progress progress{Step{31}, "computing and reducing gradients",
                                     "forward of slice 0", 5 << 20};
    const Deadline deadline = Deadline::after(system_clock(), std::chrono::seconds(30));
    const auto is_told = [&] {
      const auto workers = read();
      return workers.size() == 2 && workers[1].step == 31;
    };
    live.note(7, progress);  // no member
    live.note(4, progress);
    while (!is_told() && !deadline.passed(system_clock()))
      pause(system_clock(), std::chrono::milliseconds(20));
    const auto workers = read();
    ASSERT_EQ(workers.size(), 2u);
    EXPECT_EQ(workers[0].worker, 2);
    EXPECT_EQ(workers[0].rank, 1);
    EXPECT_EQ(workers[0].resident, 0u);
    EXPECT_EQ(workers[1].operation, "forward of slice 0");
    EXPECT_EQ(workers[1].shares[static_cast<std::size_t>(Activity::kCompute)], 1);
    EXPECT_EQ(workers[1].resident, 5u << 20);
  }
  EXPECT_FALSE(system_files().exists(path));
}

TEST(LiveFile, WhatIsNoneIsCorrupt) {
  EXPECT_EQ(live_workers_from_json("{}").error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(live_workers_from_json("rubbish").error().code, ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace muster::app
