// Breaks every call to the disk that a save makes, in every way. Whatever happens, the newest whole
// checkpoint loads, nothing that counts as whole is damaged, and the error names a path.

#include <gtest/gtest.h>

#include "muster/checkpoint/checkpointer.h"
#include "muster/checkpoint/sample_state.h"
#include "muster/checkpoint/survey.h"
#include "muster/checkpoint/testing/run_folder.h"
#include "muster/checkpoint/verify.h"
#include "muster/testing/fake_clock.h"
#include "muster/testing/faulty_files.h"
#include "muster/testing/memory_files.h"

namespace muster::checkpoint {
namespace {

using testing::Fault;
using Crash = testing::MemoryFiles::Crash;

struct FaultCase {
  const char* name;
  Fault fault;
  std::optional<Crash> crash;  // after the save
};

const FaultCase kCases[] = {
    {"IoError", Fault::kIoError, std::nullopt},
    {"IoErrorThenCrash", Fault::kIoError, Crash::kLosesUnsynced},
    {"FullDisk", Fault::kNoSpace, std::nullopt},
    {"ShortWrite", Fault::kShortWrite, std::nullopt},
    {"PowerLossLosesUnsynced", Fault::kPowerLoss, Crash::kLosesUnsynced},
    {"PowerLossTearsUnsynced", Fault::kPowerLoss, Crash::kTearsUnsynced},
    {"PowerLossKeepsRenames", Fault::kPowerLoss, Crash::kKeepsRenames},
};

void PrintTo(const FaultCase& fault, std::ostream* out) { *out << fault.name; }

class SaveFaultTest : public ::testing::TestWithParam<FaultCase> {
 protected:
  static CheckpointOptions options() {
    return {.job = "sample", .keep_last = 2, .max_file_bytes = 30};
  }

  // A disk with steps 1 and 2 on it, so that a save of step 3 also removes one.
  void prepare(testing::MemoryFiles& disk) {
    make_run(disk);
    Checkpointer before(disk, clock_, checkpoints(), options());
    for (const int step : {1, 2}) {
      SampleState state(step);
      ASSERT_TRUE(before.save(state.request(step)));
    }
  }

  // All that holds after any accident.
  void check(testing::MemoryFiles& disk, bool saved) {
    Checkpointer after(disk, clock_, checkpoints(), options());
    SampleState loaded(0);
    const auto newest = after.load_newest_whole(loaded.target());
    ASSERT_TRUE(newest) << newest.error().message;
    const auto step = to_int(newest->loaded.step);
    EXPECT_TRUE(step == 3 || (step == 2 && !saved)) << step;
    EXPECT_EQ(loaded, SampleState(static_cast<int>(step)));
    // A manifest is there only where all that it promises is.
    const auto found = survey(disk, checkpoints());
    ASSERT_TRUE(found);
    for (const Found& one : *found) {
      EXPECT_TRUE(one.manifest || !disk.exists(one.folder / kManifestName))
          << one.manifest.error().message;
    }
    const auto steps = after.complete_steps();
    ASSERT_TRUE(steps);
    for (const Step one : *steps) {
      EXPECT_TRUE(verify_checkpoint(disk, after.folder_of(one).value()).value().whole());
    }
    SampleState next(4);
    EXPECT_TRUE(after.save(next.request(4))) << "the next save goes on as if nothing had been";
  }

  testing::FakeClock clock_;
};

TEST_P(SaveFaultTest, LeavesTheNewestWholeCheckpointIntact) {
  bool hit = true;
  std::uint64_t call = 0;
  for (; hit; ++call) {
    SCOPED_TRACE(call);
    testing::MemoryFiles disk;
    prepare(disk);
    testing::FaultyFiles faulty(disk);
    faulty.fail_at(call, GetParam().fault);
    Checkpointer checkpointer(faulty, clock_, checkpoints(), options());
    SampleState state(3);
    const auto saved = checkpointer.save(state.request(3));
    hit = !faulty.failed_path().empty();
    if (hit) {
      // A step that is saved and whose retention failed is saved.
      ASSERT_TRUE(!saved || saved->retention_failed);
      const Error error = saved ? *saved->retention_failed : saved.error();
      EXPECT_NE(error.message.find(faulty.failed_path().native()), std::string::npos)
          << error.message;
    }
    if (GetParam().crash) disk.crash(*GetParam().crash);
    check(disk, saved.has_value());
  }
  EXPECT_GT(call, 30u) << "a save makes more calls than this";
}

INSTANTIATE_TEST_SUITE_P(Faults, SaveFaultTest, ::testing::ValuesIn(kCases),
                         [](const auto& fault) { return fault.param.name; });

}  // namespace
}  // namespace muster::checkpoint
