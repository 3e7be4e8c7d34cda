#include "muster/observe/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/testing/faulty_files.h"
#include "muster/testing/memory_files.h"
#include "muster/testing/temp_folder.h"

namespace muster::observe {
namespace {

using muster::testing::Fault;
using muster::testing::FaultyFiles;
using muster::testing::MemoryFiles;
using muster::testing::TempFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

class CountingEntropy final : public Entropy {
 public:
  std::uint64_t next() override { return next_++; }

 private:
  std::uint64_t next_ = 0xABC;
};

WallTime at(int hour) {
  return WallTime(std::chrono::seconds(1795219200) + std::chrono::hours(hour));
}

Status no_job(const RunFolder&) { return ok(); }

class RunFolderTest : public ::testing::Test {
 protected:
  Result<RunFolder> create(int hour) {
    return RunFolder::create(system_files(), runs_.path(), "fashion", at(hour), entropy_, no_job);
  }
  TempFolder runs_;
  CountingEntropy entropy_;
};

TEST_F(RunFolderTest, IsNamedByTimeAndIdAndLatestPointsAtIt) {
  const auto folder = create(12);
  ASSERT_TRUE(folder) << folder.error().message;
  EXPECT_THAT(folder->root().filename().string(), MatchesRegex("[0-9]{8}T120000Z-000abc"));
  EXPECT_TRUE(std::filesystem::is_directory(folder->logs()));
  EXPECT_TRUE(std::filesystem::is_directory(folder->checkpoints()));
  EXPECT_TRUE(std::filesystem::equivalent(runs_ / "fashion/latest", folder->root()));
  // Relative, so that the whole tree may be moved.
  EXPECT_EQ(std::filesystem::read_symlink(runs_ / "fashion/latest"), folder->root().filename());
}

TEST_F(RunFolderTest, GoesOnFromTheNewestThatHasACheckpoint) {
  const auto save = [](const Result<RunFolder>& run) {
    ASSERT_TRUE(run);
    std::filesystem::create_directory(run->checkpoints() / "step-00000005");
    ASSERT_TRUE(
        write_atomically(system_files(), run->checkpoints() / "step-00000005/manifest.json", "{}"));
  };
  save(create(13));
  const auto newer = create(14);
  save(newer);
  const auto failed = create(15);  // at its start
  ASSERT_TRUE(failed);
  EXPECT_TRUE(newer->has_checkpoint(system_files()));
  EXPECT_FALSE(failed->has_checkpoint(system_files()));
  std::vector<Path> passed_over;
  const auto found = RunFolder::newest_saved(system_files(), runs_.path(), "fashion", passed_over);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(passed_over, std::vector<Path>{failed->root()});
  EXPECT_EQ(found->root(), newer->root());
  EXPECT_TRUE(std::filesystem::equivalent(runs_ / "fashion/latest", failed->root()));
}

TEST_F(RunFolderTest, ARuinedCheckpointIsNoneToGoOnFrom) {
  const auto run = create(13);
  ASSERT_TRUE(run);
  const Path ruined = run->checkpoints() / "ruined-step-00000005";
  std::filesystem::create_directory(ruined);
  ASSERT_TRUE(write_atomically(system_files(), ruined / "manifest.json", "{}"));
  EXPECT_FALSE(run->has_checkpoint(system_files()));
  std::filesystem::rename(ruined, run->checkpoints() / "step-00000005.1");
  EXPECT_TRUE(run->has_checkpoint(system_files()));
}

TEST_F(RunFolderTest, OutlivesAPowerCut) {
  MemoryFiles disk;
  const auto run = RunFolder::create(disk, "/shelf/runs", "fashion", at(13), entropy_, no_job);
  ASSERT_TRUE(run) << run.error().message;
  disk.crash(MemoryFiles::Crash::kLosesUnsynced);
  EXPECT_TRUE(disk.exists(run->checkpoints()));
  EXPECT_TRUE(disk.exists(run->logs()));
  EXPECT_TRUE(disk.exists("/shelf/runs/fashion/latest"));
}

TEST_F(RunFolderTest, NoErrorOfTheDiskIsPassedOver) {
  bool hit = true;
  std::uint64_t call = 0;
  for (; hit; ++call) {
    MemoryFiles disk;
    FaultyFiles faulty(disk);
    faulty.fail_at(call, Fault::kIoError);
    const auto run = RunFolder::create(faulty, "/shelf/runs", "fashion", at(13), entropy_, no_job);
    hit = !faulty.failed_path().empty();
    EXPECT_EQ(run.has_value(), !hit) << call;
  }
  EXPECT_GT(call, 8u) << "a new run makes more calls than this";
}

// Else `latest`, which everybody looks at, would be of a run that never was.
TEST_F(RunFolderTest, AFullDiskLeavesTheRunBeforeOrAWholeOne) {
  const Path all = "/shelf/runs/fashion";
  bool hit = true;
  for (std::uint64_t call = 0; hit; ++call) {
    MemoryFiles disk;
    const auto before = RunFolder::create(disk, "/shelf/runs", "fashion", at(12), entropy_, no_job);
    ASSERT_TRUE(before) << before.error().message;
    FaultyFiles faulty(disk);
    faulty.fail_at(call, Fault::kNoSpace);
    const auto run = RunFolder::create(
        faulty, "/shelf/runs", "fashion", at(13), entropy_,
        [&](const RunFolder& made) { return write_atomically(faulty, made.job(), "the job"); });
    hit = !faulty.failed_path().empty();
    ASSERT_EQ(run.has_value(), !hit) << call;
    const Path latest = all / disk.read(all / "latest").value();
    if (latest == before->root()) {
      EXPECT_TRUE(hit) << call;
      EXPECT_EQ(disk.list(all)->size(), 2u) << call << ": half a run was left";
    } else {
      EXPECT_EQ(disk.read(latest / "job.yaml").value(), "the job") << call;
    }
  }
}

TEST_F(RunFolderTest, ALockThatCannotBeMadeIsNotTakenForAnothersLock) {
  const auto run = create(13);
  ASSERT_TRUE(run);
  FaultyFiles faulty(system_files());
  faulty.fail_at(0, Fault::kNoSpace);
  const auto full = run->lock(faulty);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(full.error().message,
              AllOf(HasSubstr("No space left"), Not(HasSubstr("another muster"))));
  const auto held = run->lock(faulty);
  ASSERT_TRUE(held) << held.error().message;
  EXPECT_TRUE(run->launcher(faulty));
  const auto second = run->lock(faulty);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(second.error().message, HasSubstr("another muster still trains there"));
}

TEST_F(RunFolderTest, RunsOfOneSecondDoNotMeet) {
  const auto one = create(13);
  const auto two = create(13);
  ASSERT_TRUE(one && two);
  EXPECT_NE(one->root(), two->root());
}

// A run of a small model takes less than a second; --resume goes on with the last by name.
TEST_F(RunFolderTest, ALaterRunOfOneSecondComesLater) {
  class : public Entropy {
   public:
    std::uint64_t next() override { return next_ -= 7; }

   private:
    std::uint64_t next_ = 0xABCDEF;
  } falling;
  std::string last;
  for (int times = 0; times < 20; ++times) {
    const auto run =
        RunFolder::create(system_files(), runs_.path(), "fashion", at(13), falling, no_job);
    ASSERT_TRUE(run);
    EXPECT_GT(run->root().filename().string(), last);
    last = run->root().filename().string();
  }
}

TEST_F(RunFolderTest, SaysWhereItLookedForARun) {
  std::vector<Path> passed_over;
  const auto none = RunFolder::newest_saved(system_files(), runs_.path(), "gpt", passed_over);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(none.error().message, HasSubstr((runs_ / "gpt").string()));
  EXPECT_FALSE(RunFolder::open(system_files(), runs_ / "gpt"));
}

TEST_F(RunFolderTest, KeepsEnvironmentAndSummary) {
  const auto folder = create(1);
  ASSERT_TRUE(folder);
  Environment environment = read_environment(system_files());
  environment.versions = {{"muster", "0.1.0"}, {"libtorch", "2.11.0"}};
  ASSERT_TRUE(folder->write_environment(system_files(), environment));
  const auto text = system_files().read(folder->environment());
  ASSERT_TRUE(text);
  EXPECT_EQ(*environment_from_json(*text), environment);
  RunEnded ended;
  ended.results = {{"eval/accuracy", 0.9}};
  ASSERT_TRUE(folder->write_summary(system_files(), ended, RunState::kFinished));
  EXPECT_THAT(*system_files().read(folder->summary()), HasSubstr("\"eval/accuracy\": 0.9"));
  EXPECT_THAT(*system_files().read(folder->summary()), HasSubstr("\"state\": \"finished\""));
}

TEST(Environment, ReadsThisMachine) {
  EXPECT_GT(peak_memory(system_files()), 1u << 20);
  const Environment environment = read_environment(system_files());
  EXPECT_GE(environment.cores, 1);
  EXPECT_GT(environment.memory_bytes, 1u << 20);
  EXPECT_FALSE(environment.host.empty());
  EXPECT_THAT(environment.system, HasSubstr("Linux"));
}

TEST(Environment, LeavesEmptyWhatCannotBeRead) {
  MemoryFiles files;
  EXPECT_EQ(read_environment(files), Environment{});
}

TEST(Environment, RefusesTextThatIsNotOne) {
  EXPECT_FALSE(environment_from_json("{}"));
  EXPECT_FALSE(environment_from_json("not json"));
}

}  // namespace
}  // namespace muster::observe
