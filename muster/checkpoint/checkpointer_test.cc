#include "muster/checkpoint/checkpointer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "muster/checkpoint/export.h"
#include "muster/checkpoint/safetensors.h"
#include "muster/checkpoint/sample_state.h"
#include "muster/checkpoint/survey.h"
#include "muster/checkpoint/testing/run_folder.h"
#include "muster/checkpoint/verify.h"
#include "muster/testing/fake_clock.h"
#include "muster/testing/faulty_files.h"
#include "muster/testing/memory_files.h"
#include "muster/testing/temp_folder.h"

namespace muster::checkpoint {
namespace {

using ::testing::HasSubstr;

void overwrite(Files& files, const Path& path, std::string_view text) {
  auto file = files.open(path, Files::Open::kTruncate);
  ASSERT_TRUE(file && (*file)->append(std::as_bytes(std::span(text))));
}

class CheckpointerTest : public ::testing::Test {
 protected:
  CheckpointerTest() { make_run(disk_); }

  Checkpointer checkpointer(CheckpointOptions options = {.job = "sample", .keep_last = 0}) {
    return {disk_, clock_, checkpoints(), std::move(options)};
  }
  void save(std::int64_t step) {
    SampleState state(static_cast<int>(step));
    const auto saved = checkpointer().save(state.request(step));
    ASSERT_TRUE(saved) << saved.error().message;
  }
  void bend(const Path& path) {
    std::string text = disk_.read(path).value();
    text.back() = static_cast<char>(text.back() ^ 1);
    overwrite(disk_, path, text);
  }

  void move_folder(const Path& from, const Path& to) {
    ASSERT_TRUE(disk_.create_folders(to));
    const auto names = disk_.list(from);
    for (const std::string& name : *names) ASSERT_TRUE(disk_.rename(from / name, to / name));
    ASSERT_TRUE(disk_.remove_all(from));
  }

  testing::MemoryFiles disk_;
  testing::FakeClock clock_;
};

TEST_F(CheckpointerTest, LoadsWhatItSaved) {
  save(500);
  SampleState loaded(0);
  const auto result = checkpointer().load(Step{500}, loaded.target());
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(loaded, SampleState(500));
  EXPECT_EQ(result->state, R"({"samples_seen":77})");
  EXPECT_EQ(result->folder, checkpoints() / "step-00000500");
  EXPECT_EQ(
      disk_.list(result->folder).value(),
      (std::vector<std::string>{"manifest.json", "model.safetensors", "optimizer.safetensors"}));
}

TEST_F(CheckpointerTest, SurvivesACrashRightAfterTheSave) {
  save(1);
  disk_.crash(testing::MemoryFiles::Crash::kLosesUnsynced);
  SampleState loaded(0);
  ASSERT_TRUE(checkpointer().load(Step{1}, loaded.target()));
  EXPECT_EQ(loaded, SampleState(1));
}

TEST_F(CheckpointerTest, WritesAManifestThatSaysWhatItIs) {
  save(7);
  const auto manifest = read_manifest(disk_, checkpoints() / "step-00000007");
  ASSERT_TRUE(manifest);
  EXPECT_EQ(manifest->job, "sample");
  EXPECT_EQ(manifest->step, Step{7});
  EXPECT_EQ(manifest->generation, Generation{1});
  EXPECT_EQ(manifest->created, "2026-01-01T00:00:00Z");
  EXPECT_EQ(manifest->model[0],
            (TensorRecord{"fc.weight", DType::kF32, {2, 3}, "model.safetensors"}));
  EXPECT_EQ(decode_manifest(encode_manifest(*manifest).value()).value(), *manifest);
}

TEST_F(CheckpointerTest, ListsStepsAndTheLatest) {
  EXPECT_TRUE(checkpointer().complete_steps().value().empty());
  EXPECT_EQ(checkpointer().latest().value(), std::nullopt);
  for (const int step : {20, 3, 100}) save(step);
  ASSERT_TRUE(disk_.create_folders(checkpoints() / "step-00000300"));  // torn
  ASSERT_TRUE(disk_.create_folders(checkpoints() / "notes"));
  EXPECT_EQ(checkpointer().complete_steps().value(),
            (std::vector<Step>{Step{3}, Step{20}, Step{100}}));
  EXPECT_EQ(checkpointer().latest().value(), Step{100});
}

TEST_F(CheckpointerTest, CutsLargeStatesIntoFiles) {
  SampleState state(1);
  auto options = CheckpointOptions{.job = "sample", .keep_last = 0, .max_file_bytes = 30};
  ASSERT_TRUE(checkpointer(options).save(state.request(1)));
  const Path folder = checkpoints() / "step-00000001";
  EXPECT_EQ(
      disk_.list(folder).value(),
      (std::vector<std::string>{
          "manifest.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
          "optimizer-00001-of-00002.safetensors", "optimizer-00002-of-00002.safetensors"}));
  SampleState loaded(0);
  ASSERT_TRUE(checkpointer().load(Step{1}, loaded.target()));
  EXPECT_EQ(loaded, state);
  EXPECT_TRUE(verify_checkpoint(disk_, folder).value().whole());
}

TEST_F(CheckpointerTest, LoadsTensorsThatCrossChunks) {
  std::vector<std::int64_t> large(2'000'000), loaded(large.size());
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<std::int64_t>(i);
  std::vector<std::uint8_t> small(3, 9), loaded_small(3);
  const auto list = [](auto& first, auto& second) {
    return std::vector<NamedTensor>{{"small", view_of(std::span(second))},
                                    {"large", view_of(std::span(first))}};
  };
  SaveRequest request{.step = Step{1}, .model = list(large, small)};
  ASSERT_TRUE(checkpointer().save(request));
  ASSERT_TRUE(checkpointer().load(Step{1}, {whole_slices(list(loaded, loaded_small)), {}}));
  EXPECT_EQ(loaded, large);
  EXPECT_EQ(loaded_small, small);
}

// A tensor of three axes that crosses chunks, cut along each of them.
TEST_F(CheckpointerTest, LoadsAnyPartOfATensor) {
  const Shape shape{6, 1000, 300};
  std::vector<std::int64_t> whole(static_cast<std::size_t>(element_count(shape)));
  std::iota(whole.begin(), whole.end(), 0);
  std::vector<std::uint8_t> other(3, 9);
  const TensorView view{DType::kI64, shape, std::as_writable_bytes(std::span(whole))};
  ASSERT_TRUE(checkpointer().save(
      {.step = Step{1}, .model = {{"other", view_of(std::span(other))}, {"cut", view}}}));
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    Shape part = shape, offset(shape.size());
    part[axis] = 5;
    offset[axis] = shape[axis] - 6;
    std::vector<std::int64_t> loaded(static_cast<std::size_t>(element_count(part)));
    const TensorSlice slice{
        "cut", {DType::kI64, part, std::as_writable_bytes(std::span(loaded))}, shape, offset};
    ASSERT_EQ(checkpointer().load(Step{1}, {{slice}, {}}).error().code, ErrorCode::kInvalid);
    ASSERT_TRUE(checkpointer().load(Step{1}, {.model = {slice}, .optimizer = {}, .some = true}));
    std::size_t i = 0;
    for (std::int64_t x = 0; x < part[0]; ++x)
      for (std::int64_t y = 0; y < part[1]; ++y)
        for (std::int64_t z = 0; z < part[2]; ++z)
          ASSERT_EQ(loaded[i++],
                    ((x + offset[0]) * shape[1] + y + offset[1]) * shape[2] + z + offset[2]);
  }
}

// As a rank has them that holds rows of each of the matrices that lie one above the other.
TEST_F(CheckpointerTest, LoadsSeveralPartsOfATensor) {
  const Shape shape{900, 1000};
  std::vector<std::int64_t> whole(static_cast<std::size_t>(element_count(shape)));
  std::iota(whole.begin(), whole.end(), 0);
  const TensorView view{DType::kI64, shape, std::as_writable_bytes(std::span(whole))};
  ASSERT_TRUE(checkpointer().save({.step = Step{1}, .model = {{"cut", view}}}));
  std::vector<std::vector<std::int64_t>> loaded;
  LoadTarget target{.model = {}, .optimizer = {}, .some = true};
  for (const std::int64_t row : {700, 100, 400}) {
    loaded.emplace_back(50 * 1000);
    target.model.push_back(
        {"cut",
         {DType::kI64, {50, 1000}, std::as_writable_bytes(std::span(loaded.back()))},
         shape,
         {row, 0}});
  }
  ASSERT_TRUE(checkpointer().load(Step{1}, target));
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    const std::int64_t first = target.model[i].offset[0] * 1000;
    EXPECT_EQ(loaded[i].front(), first);
    EXPECT_EQ(loaded[i].back(), first + 50 * 1000 - 1);
  }
  target.model[1].global_shape = {900, 1001};
  EXPECT_EQ(checkpointer().load(Step{1}, target).error().code, ErrorCode::kInvalid);
}

TEST_F(CheckpointerTest, RefusesAnotherModelAndLeavesItAlone) {
  save(1);
  SampleState state(9);
  LoadTarget target = state.target();
  target.model[0].name = "other";
  target.model[1].global_shape = target.model[1].tensor.shape = {2, 2};
  target.optimizer.pop_back();
  const auto result = checkpointer().load(Step{1}, target);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kInvalid);
  for (const char* says : {"`fc.weight` is in the checkpoint only", "`other` is not in the",
                           "`fc.bias` is F32 [4] in the checkpoint, F32 [2, 2] here"}) {
    EXPECT_NE(result.error().message.find(says), std::string::npos) << result.error().message;
  }
  EXPECT_EQ(state, SampleState(9));
  EXPECT_EQ(checkpointer().load_newest_whole(target).error().code, ErrorCode::kInvalid);
}

TEST_F(CheckpointerTest, LoadsWeightsAlone) {
  save(1);
  SampleState state(9);
  ASSERT_TRUE(checkpointer().load_weights(Step{1}, state.model()));
  std::vector<NamedTensor> model = state.model();
  EXPECT_EQ(model[0].tensor.as<float>()[5], 1005);
}

TEST_F(CheckpointerTest, FallsBackAndSaysWhatItPassedOver) {
  for (const int step : {1, 2, 3}) save(step);
  bend(checkpoints() / "step-00000003/model.safetensors");
  ASSERT_TRUE(disk_.create_folders(checkpoints() / "step-00000004"));
  SampleState loaded(0);
  EXPECT_EQ(checkpointer().load(Step{3}, loaded.target()).error().code, ErrorCode::kCorrupt);
  const auto newest = checkpointer().load_newest_whole(loaded.target());
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->loaded.step, Step{2});
  EXPECT_EQ(loaded, SampleState(2));
  ASSERT_EQ(newest->skipped.size(), 2u);
  EXPECT_EQ(newest->skipped[0].why.code, ErrorCode::kNotFound);
  EXPECT_NE(newest->skipped[1].why.message.find("step-00000003/model.safetensors: chunk 0"),
            std::string::npos)
      << newest->skipped[1].why.message;
}

TEST_F(CheckpointerTest, SaysWhenThereIsNothingToLoad) {
  SampleState state(0);
  EXPECT_EQ(checkpointer().load(Step{1}, state.target()).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(checkpointer().load_newest_whole(state.target()).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(checkpointer().folder_of(Step{1}).error().code, ErrorCode::kNotFound);
}

TEST_F(CheckpointerTest, AFailedSaveSpeaksOfEarlierOnesWhereThereAreSome) {
  testing::FaultyFiles full(disk_);
  Checkpointer saver(full, clock_, checkpoints(), {.job = "sample", .keep_last = 0});
  const auto failure = [&] {
    SampleState state(2);
    full.fail_at(0, testing::Fault::kNoSpace);
    const auto saved = saver.save(state.request(2));
    return saved ? "saved" : saved.error().message;
  };
  ASSERT_TRUE(disk_.create_folders(checkpoints() / "step-00000001"));  // torn
  EXPECT_THAT(failure(), HasSubstr("step 2 was not saved, and there is no earlier checkpoint: "));
  save(1);
  EXPECT_THAT(failure(), HasSubstr("step 2 was not saved, earlier checkpoints are intact: "));
}

TEST_F(CheckpointerTest, AFileInThePlaceOfItsFolderIsNamedWithTheStep) {
  save(3);
  ASSERT_TRUE(disk_.remove_all(checkpoints()));
  overwrite(disk_, checkpoints(), "no folder");
  SampleState state(4);
  const auto saved = checkpointer().save(state.request(4));
  ASSERT_FALSE(saved);
  EXPECT_THAT(saved.error().message, HasSubstr("step 4 was not saved"));
}

TEST_F(CheckpointerTest, SavesAStepAgainUnderAnotherName) {
  save(1);
  SampleState second(42);
  const auto saved = checkpointer().save(second.request(1));
  ASSERT_TRUE(saved);
  EXPECT_EQ(saved->folder, checkpoints() / "step-00000001.1");
  SampleState loaded(0);
  ASSERT_TRUE(checkpointer().load(Step{1}, loaded.target()));
  EXPECT_EQ(loaded, second);
}

TEST_F(CheckpointerTest, KeepsTheNewestAndTheProtected) {
  auto keeper = checkpointer({.job = "sample", .keep_last = 2});
  for (const int step : {1, 2, 3, 4, 5}) {
    SampleState state(step);
    SaveRequest request = state.request(step);
    request.protect = {Step{2}};
    const auto saved = keeper.save(request);
    ASSERT_TRUE(saved);
    EXPECT_FALSE(saved->retention_failed);
  }
  EXPECT_EQ(keeper.complete_steps().value(), (std::vector<Step>{Step{2}, Step{4}, Step{5}}));
  EXPECT_EQ(disk_.list(checkpoints()).value().size(), 3u);
}

TEST_F(CheckpointerTest, KeepsTheLatestFromBeforeWhereAsked) {
  auto keeper = checkpointer({.job = "sample", .keep_last = 1});
  for (const bool protects : {true, false}) {
    for (const int step : {1, 2, 3}) save(step);
    SampleState state(4);
    SaveRequest request = state.request(4);
    request.protects_latest = protects;
    ASSERT_TRUE(keeper.save(request));
    const std::vector<Step> kept = protects ? std::vector{Step{3}, Step{4}} : std::vector{Step{4}};
    EXPECT_EQ(keeper.complete_steps().value(), kept);
    ASSERT_TRUE(disk_.remove_all(checkpoints()));
  }
}

// The best of all was not saved, or not yet: what is there of it stays.
TEST_F(CheckpointerTest, KeepsTheBestThatIsThere) {
  auto keeper = checkpointer({.job = "sample", .keep_last = 1});
  const auto kept_after = [&](int step, const std::string& remembers) {
    SampleState state(step);
    SaveRequest request = state.request(step);
    request.state = remembers;
    request.protects_best = true;
    EXPECT_TRUE(keeper.save(request));
    const auto found = keeper.complete_steps();
    EXPECT_TRUE(found);
    std::vector<std::int64_t> kept;
    for (const Step one : found.value()) kept.push_back(to_int(one));
    return kept;
  };
  using Steps = std::vector<std::int64_t>;
  EXPECT_EQ(kept_after(1, R"({"best_step":1,"best_metric":"loss"})"), (Steps{1}));
  EXPECT_EQ(kept_after(2, R"({"best_step":2,"best_metric":"loss"})"), (Steps{2}));
  EXPECT_EQ(kept_after(4, R"({"best_step":3,"best_metric":"loss"})"), (Steps{2, 4}));
  EXPECT_EQ(kept_after(5, R"({"best_step":3,"best_metric":"loss"})"), (Steps{2, 5}));
  EXPECT_EQ(kept_after(6, R"({"best_step":6,"best_metric":"loss"})"), (Steps{6}));
  EXPECT_EQ(kept_after(7, R"({"best_step":6,"best_metric":"loss"})"), (Steps{6, 7}));
  EXPECT_EQ(kept_after(9, R"({"best_step":8,"best_metric":"accuracy"})"), (Steps{9}));
  EXPECT_EQ(kept_after(10, R"({"best_step":"of all"})"), (Steps{10}));
}

TEST_F(CheckpointerTest, RetiresNoneWhereNotAsked) {
  save(1);
  SampleState state(2);
  SaveRequest request = state.request(2);
  request.retires_others = false;
  ASSERT_TRUE(checkpointer({.job = "sample", .keep_last = 1}).save(request));
  EXPECT_EQ(checkpointer().complete_steps().value(), (std::vector<Step>{Step{1}, Step{2}}));
}

TEST_F(CheckpointerTest, KeepsWhatItHasJustSaved) {
  for (const int step : {500, 600}) save(step);  // of a course that was left
  SampleState state(450);
  ASSERT_TRUE(checkpointer({.job = "sample", .keep_last = 2}).save(state.request(450)));
  EXPECT_TRUE(checkpointer().folder_of(Step{450}));
}

TEST_F(CheckpointerTest, RemovesTornSavesButNotDamagedOnes) {
  save(1);
  overwrite(disk_, checkpoints() / "step-00000001/manifest.json", "{}");
  ASSERT_TRUE(disk_.create_folders(checkpoints() / "step-00000002"));
  save(3);
  EXPECT_EQ(disk_.list(checkpoints()).value(),
            (std::vector<std::string>{"step-00000001", "step-00000003"}));
}

// A first rank that was done without may still be at its last save, and another one at the next.
TEST_F(CheckpointerTest, LeavesLaterStepsToTheirWriter) {
  ASSERT_TRUE(disk_.create_folders(checkpoints() / "step-00000004"));
  save(3);
  EXPECT_EQ(disk_.list(checkpoints()).value(),
            (std::vector<std::string>{"step-00000003", "step-00000004"}));
  save(5);
  EXPECT_EQ(disk_.list(checkpoints()).value(),
            (std::vector<std::string>{"step-00000003", "step-00000005"}));
}

TEST_F(CheckpointerTest, PutsAwayWhatIsRuinedAsOftenAsItIs) {
  const muster::testing::TempFolder run;
  for (const char* name :
       {"ruined-step-00000007", "ruined-step-00000007-2", "ruined-step-00000007-3"}) {
    Checkpointer ours(system_files(), clock_, run.path() / "checkpoints", {.job = "sample"});
    ASSERT_TRUE(ours.save(SampleState(7).request(7)));
    const auto there = ours.set_aside(Step{7});
    ASSERT_TRUE(there) << there.error().message;
    EXPECT_EQ(*there, run.path() / "checkpoints" / name);
    EXPECT_FALSE(ours.folder_of(Step{7}));
  }
}

TEST_F(CheckpointerTest, RefusesWhatCannotBeSaved) {
  SampleState state(1);
  SaveRequest twice = state.request(1);
  twice.model[1].name = twice.model[0].name;
  SaveRequest short_of = state.request(1);
  short_of.model[0].tensor.shape = {3, 3};
  SaveRequest no_json = state.request(1);
  no_json.state = "samples: 7";
  for (const SaveRequest& request : {twice, short_of, no_json}) {
    EXPECT_EQ(checkpointer().save(request).error().code, ErrorCode::kInvalid);
  }
  EXPECT_TRUE(disk_.list(checkpoints()).value().empty());
}

TEST_F(CheckpointerTest, FindsEveryFlippedByteAndEveryTruncation) {
  save(1);
  const Path folder = checkpoints() / "step-00000001";
  const std::vector<std::string> names = disk_.list(folder).value();
  for (const std::string& name : names) {
    const std::string whole = disk_.read(folder / name).value();
    for (std::size_t i = 0; i < whole.size(); ++i) {
      std::string bent = whole;
      bent[i] = static_cast<char>(bent[i] ^ (1 << (i % 8)));
      overwrite(disk_, folder / name, bent);
      const auto report = verify_checkpoint(disk_, folder).value();
      ASSERT_EQ(report.damage.size(), 1u) << name << " byte " << i;
      ASSERT_EQ(report.damage[0].file, name);
      ASSERT_EQ(report.damage[0].chunk.has_value(), name != kManifestName);
      overwrite(disk_, folder / name, whole.substr(0, i));
      ASSERT_FALSE(verify_checkpoint(disk_, folder).value().whole()) << name << " length " << i;
    }
    overwrite(disk_, folder / name, whole + '\0');
    EXPECT_FALSE(verify_checkpoint(disk_, folder).value().whole()) << name;
    ASSERT_TRUE(disk_.remove_all(folder / name));
    EXPECT_FALSE(verify_checkpoint(disk_, folder).value().whole()) << name;
    overwrite(disk_, folder / name, whole);
  }
  EXPECT_TRUE(verify_checkpoint(disk_, folder).value().whole());
  EXPECT_EQ(verify_checkpoint(disk_, "/none").error().code, ErrorCode::kNotFound);
}

TEST_F(CheckpointerTest, OneInTheFolderOfAnotherStepIsNone) {
  save(10);
  save(20);
  const Path moved = checkpoints() / "step-00000500";
  move_folder(checkpoints() / "step-00000020", moved);
  EXPECT_EQ(checkpointer().latest().value(), Step{10});
  SampleState loaded(0);
  const auto newest = checkpointer().load_newest_whole(loaded.target());
  ASSERT_TRUE(newest) << newest.error().message;
  EXPECT_EQ(newest->loaded.step, Step{10});
  ASSERT_EQ(newest->skipped.size(), 1u);
  EXPECT_EQ(newest->skipped[0].why.code, ErrorCode::kCorrupt);
  EXPECT_THAT(newest->skipped[0].why.message, HasSubstr("step-00000020"));
  const auto report = verify_checkpoint(disk_, moved).value();
  ASSERT_EQ(report.damage.size(), 1u);
  EXPECT_THAT(report.damage[0].what, HasSubstr("is of step 20"));
  move_folder(moved, checkpoints() / "kept");
  EXPECT_TRUE(verify_checkpoint(disk_, checkpoints() / "kept").value().whole());
}

TEST_F(CheckpointerTest, NamesTheDamagedChunk) {
  std::vector<std::uint8_t> large(3 * kChunkBytes);
  SaveRequest request{.step = Step{1}, .model = {{"large", view_of(std::span(large))}}};
  ASSERT_TRUE(checkpointer().save(request));
  const Path path = checkpoints() / "step-00000001/model.safetensors";
  std::string text = disk_.read(path).value();
  text[2 * kChunkBytes] = 1;
  overwrite(disk_, path, text);
  const auto report = verify_checkpoint(disk_, path.parent_path()).value();
  ASSERT_EQ(report.damage.size(), 1u);
  EXPECT_EQ(report.damage[0].chunk, 2u);
}

TEST_F(CheckpointerTest, ExportsWeightsIntoOneFile) {
  SampleState state(1);
  auto options = CheckpointOptions{.job = "sample", .keep_last = 0, .max_file_bytes = 30};
  ASSERT_TRUE(checkpointer(options).save(state.request(1)));
  for (int again = 0; again < 2; ++again) {
    const auto exported =
        export_weights(disk_, checkpoints() / "step-00000001", "/out", {.replace = again > 0});
    ASSERT_TRUE(exported) << exported.error().message;
    EXPECT_EQ(exported->tensors, 2u);
    EXPECT_EQ(disk_.list("/out").value(), std::vector<std::string>{"model.safetensors"});
  }
  const auto header = read_safetensors_header(disk_, "/out/model.safetensors");
  ASSERT_TRUE(header);
  EXPECT_EQ(header->metadata, (Metadata{{"format", "pt"}}));
  EXPECT_EQ(header->entries.size(), 2u);
  bend(checkpoints() / "step-00000001/model-00001-of-00002.safetensors");
  EXPECT_EQ(export_weights(disk_, checkpoints() / "step-00000001", "/other").error().code,
            ErrorCode::kCorrupt);
}

TEST_F(CheckpointerTest, AnExportReplacesNothingUnasked) {
  SampleState state(1);
  auto saving = checkpointer({.job = "sample", .keep_last = 0});
  ASSERT_TRUE(saving.save(state.request(1)));
  ASSERT_TRUE(saving.save(state.request(2)));
  const Path one = checkpoints() / "step-00000001", two = checkpoints() / "step-00000002";
  ASSERT_TRUE(export_weights(disk_, two, "/out"));
  EXPECT_THAT(export_weights(disk_, two, "/out").error().message, HasSubstr("is there already"));
  for (const Path& checkpoint : {one, two}) {
    const auto refused = export_weights(disk_, two, checkpoint, {.replace = true});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(refused.error().message, HasSubstr("is a checkpoint"));
    EXPECT_TRUE(verify_checkpoint(disk_, checkpoint).value().whole());
  }
}

TEST(FolderName, HasOneSpelling) {
  EXPECT_EQ(to_string(FolderName{Step{500}, 0}), "step-00000500");
  EXPECT_EQ(folder_name_from_string("step-00000500.2"), (FolderName{Step{500}, 2}));
  EXPECT_EQ(folder_name_from_string("step-1234567890"), (FolderName{Step{1234567890}, 0}));
  for (const char* text : {"step-500", "step-00000500.0", "step-", "step-0000050x", "x",
                           "step-00000500.", "step-00000500.-1"}) {
    EXPECT_EQ(folder_name_from_string(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace muster::checkpoint
