#include "muster/cli/checkpoint_command.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "muster/checkpoint/checkpointer.h"
#include "muster/checkpoint/safetensors.h"
#include "muster/cli/application.h"
#include "muster/cli/machine.h"
#include "muster/testing/temp_folder.h"

namespace muster::cli {
namespace {

class CheckpointCommandTest : public ::testing::Test {
 protected:
  void save(std::int64_t step, const std::string& state = R"({"epoch":3})") {
    checkpoint::Checkpointer checkpointer(system_files(), system_clock(), run_ / "checkpoints",
                                          {.job = "sample"});
    checkpoint::SaveRequest request{.step = Step{step}, .state = state};
    request.model = {{"weight", view_of(std::span(weight_))}, {"mean", view_of(std::span(mean_))}};
    request.optimizer = {{"optimizer/weight/momentum", view_of(std::span(mean_))}};
    if (!average_.empty())
      request.optimizer.push_back({"optimizer/weight/ema", view_of(std::span(average_))});
    ASSERT_TRUE(checkpointer.save(request));
  }

  ExitCode muster(const std::vector<std::string>& arguments) {
    out_.str("");
    err_.str("");
    Context context{system_files(), system_clock(), system_machine(), out_, err_, {}, "muster"};
    context.out_is_terminal = on_terminal_;
    return run(arguments, context);
  }
  // An object a line.
  nlohmann::json answer() const {
    auto answers = nlohmann::json::array();
    std::istringstream lines(out_.str());
    for (std::string line; std::getline(lines, line);)
      answers.push_back(nlohmann::json::parse(line));
    return answers;
  }
  std::string place() const { return run_.path().native(); }

  testing::TempFolder run_;
  std::vector<float> weight_ = {1, 2, 3};
  std::vector<float> mean_ = {7, 7, 7};
  std::vector<float> average_;  // of weight_; empty: none
  bool on_terminal_ = false;
  std::ostringstream out_, err_;
};

TEST_F(CheckpointCommandTest, ListsWhatIsThere) {
  save(5);
  save(10);
  std::filesystem::create_directories(run_ / "checkpoints/step-00000015");
  EXPECT_EQ(muster({"checkpoint", "list", place()}), ExitCode::kDone);
  EXPECT_NE(out_.str().find("step-00000010"), std::string::npos);
  EXPECT_NE(out_.str().find("(by sizes; `muster checkpoint verify` reads everything)\n"),
            std::string::npos);
  EXPECT_EQ(muster({"checkpoint", "list", "--json", place()}), ExitCode::kDone);
  ASSERT_EQ(answer().size(), 3u);
  EXPECT_EQ(answer()[0]["step"], 5);
  EXPECT_EQ(answer()[0]["state"], "complete");
  EXPECT_EQ(answer()[0]["trainer"]["epoch"], 3);
  EXPECT_EQ(answer()[2]["state"], "torn");
  EXPECT_EQ(muster({"checkpoint", "list", "--json", "--step", "10", place()}), ExitCode::kDone);
  EXPECT_EQ(answer().size(), 1u);
}

TEST_F(CheckpointCommandTest, ListFitsATerminal) {
  save(5);
  save(10, R"({"best_step":5})");
  const std::string in = (run_ / "checkpoints").native();
  EXPECT_EQ(muster({"checkpoint", "list", place()}), ExitCode::kDone);
  EXPECT_NE(out_.str().find("  " + in + "/step-00000005  (best)\n"), std::string::npos)
      << out_.str();
  on_terminal_ = true;
  EXPECT_EQ(muster({"checkpoint", "list", place()}), ExitCode::kDone);
  EXPECT_TRUE(out_.str().starts_with("in " + in + ":\n      step  saved ")) << out_.str();
  EXPECT_NE(out_.str().find("complete  step-00000005  (best)\n"), std::string::npos) << out_.str();
  std::istringstream lines(out_.str());
  std::string line;
  std::getline(lines, line);  // a path, which may be long
  while (std::getline(lines, line)) EXPECT_LE(line.size(), 80u) << line;
}

TEST_F(CheckpointCommandTest, ListsAndSaysWhatIsDamagedOnce) {
  save(5);
  const auto manifest = run_ / "checkpoints/step-00000005/manifest.json";
  std::ofstream(manifest) << "rubbish";
  EXPECT_EQ(muster({"checkpoint", "list", place()}), ExitCode::kFailed);
  EXPECT_NE(out_.str().find("  damaged   "), std::string::npos) << out_.str();
  EXPECT_EQ(muster({"checkpoint", "list", "--json", place()}), ExitCode::kFailed);
  EXPECT_EQ(answer()[0]["why"], "[checkpoint/manifest] " + manifest.native() +
                                    ": its first line, the digest, is damaged");
  EXPECT_EQ(muster({"checkpoint", "verify", place()}), ExitCode::kFailed);
  EXPECT_NE(out_.str().find("\n  manifest.json: its first line, the digest, is damaged\n"),
            std::string::npos)
      << out_.str();
}

TEST_F(CheckpointCommandTest, RefusesWhatIsNoRunAndNoStep) {
  save(5);
  const auto file = run_ / "checkpoints/step-00000005/model.safetensors";
  EXPECT_EQ(muster({"checkpoint", "list", file.native()}), ExitCode::kUsage);
  EXPECT_NE(err_.str().find(" is a file; give a run or one of its checkpoints"), std::string::npos)
      << err_.str();
  for (const std::string step : {"99999999999999999999", "-5"}) {
    EXPECT_EQ(muster({"checkpoint", "list", "--step", step, place()}), ExitCode::kUsage) << step;
    EXPECT_NE(err_.str().find("the number of a step, found `" + step), std::string::npos)
        << err_.str();
  }
}

TEST_F(CheckpointCommandTest, VerifiesAndNamesDamage) {
  save(5);
  EXPECT_EQ(muster({"checkpoint", "verify", place()}), ExitCode::kDone);
  EXPECT_NE(out_.str().find("whole"), std::string::npos);
  const auto folder = run_ / "checkpoints/step-00000005";
  std::fstream file(folder / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('\x7f');
  file.close();
  EXPECT_EQ(muster({"checkpoint", "verify", folder.native()}), ExitCode::kFailed);
  EXPECT_NE(out_.str().find("model.safetensors: chunk 0"), std::string::npos) << out_.str();
  EXPECT_EQ(muster({"checkpoint", "verify", "--json", folder.native() + "/"}), ExitCode::kFailed);
  EXPECT_EQ(answer()[0]["whole"], false);
  EXPECT_EQ(answer()[0]["damage"][0]["chunk"], 0);
}

TEST_F(CheckpointCommandTest, VerifyTellsASaveThatDidNotEndFromDamage) {
  std::filesystem::create_directories(run_ / "checkpoints/step-00000015");
  EXPECT_EQ(muster({"checkpoint", "verify", place()}), ExitCode::kFailed);
  EXPECT_NE(out_.str().find(": torn, 0 B checked\n"), std::string::npos) << out_.str();
  EXPECT_EQ(muster({"checkpoint", "verify", "--json", place()}), ExitCode::kFailed);
  EXPECT_EQ(answer()[0]["state"], "torn");
}

// Under the same names; what has no average is as it is.
TEST_F(CheckpointCommandTest, KnowsACopyUnderAnotherName) {
  save(5);
  const auto copy = run_ / "kept";
  std::filesystem::copy(run_ / "checkpoints/step-00000005", copy);
  EXPECT_EQ(muster({"checkpoint", "verify", copy.native()}), ExitCode::kDone) << err_.str();
  EXPECT_EQ(muster({"checkpoint", "list", "--json", copy.native()}), ExitCode::kDone);
  EXPECT_EQ(answer()[0]["step"], 5);
}

TEST_F(CheckpointCommandTest, ExportsTheAverage) {
  const std::string into = (run_ / "weights").native();
  save(5);
  EXPECT_EQ(muster({"checkpoint", "export", place(), "--average", "-o", into}), ExitCode::kUsage);
  EXPECT_NE(err_.str().find("ema.decay"), std::string::npos) << err_.str();
  average_ = {4, 5, 6};
  save(10);
  EXPECT_EQ(muster({"checkpoint", "export", place(), "--average", "-o", into}), ExitCode::kDone);
  const auto header =
      checkpoint::read_safetensors_header(system_files(), into + "/model.safetensors");
  ASSERT_TRUE(header);
  std::ifstream file(into + "/model.safetensors", std::ios::binary);
  std::map<std::string, std::vector<float>> found;
  for (const auto& entry : header->entries) {
    std::vector<float> values(3);
    file.seekg(static_cast<std::streamoff>(entry.begin));
    file.read(reinterpret_cast<char*>(values.data()), 12);
    found[entry.name] = values;
  }
  EXPECT_EQ(found,
            (std::map<std::string, std::vector<float>>{{"weight", average_}, {"mean", mean_}}));
}

TEST_F(CheckpointCommandTest, ExportsTheNewest) {
  save(5);
  weight_[0] = 9;
  save(10);
  const std::string into = (run_ / "weights").native();
  EXPECT_EQ(muster({"checkpoint", "export", place(), "--output", into}), ExitCode::kDone);
  EXPECT_NE(out_.str().find("step-00000010"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(run_ / "weights/model.safetensors"));
  EXPECT_EQ(muster({"checkpoint", "export", place(), "--output", into}), ExitCode::kUsage);
  EXPECT_NE(err_.str().find("--force to replace it"), std::string::npos) << err_.str();
  EXPECT_EQ(muster({"--log", "json", "checkpoint", "export", place(), "--force", "--output", into}),
            ExitCode::kDone);
  EXPECT_EQ(answer()[0]["file"], into + "/model.safetensors");
  EXPECT_EQ(answer()[0]["tensors"], 2);
}

TEST_F(CheckpointCommandTest, ExportPassesOverWhatIsDamagedWithAWord) {
  save(5);
  save(10);
  const auto newest = run_ / "checkpoints/step-00000010";
  {
    std::fstream file(newest / "model.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x7f');
  }
  const std::string into = (run_ / "weights").native();
  EXPECT_EQ(muster({"checkpoint", "export", place(), "-o", into}), ExitCode::kDone);
  EXPECT_NE(out_.str().find("step-00000005"), std::string::npos);
  EXPECT_NE(err_.str().find("passed over " + newest.native()), std::string::npos) << err_.str();
  EXPECT_EQ(muster({"checkpoint", "export", newest.native(), "-o", into + "2"}),
            ExitCode::kEnvironment);
  std::filesystem::remove(newest / "model.safetensors");
  EXPECT_EQ(muster({"checkpoint", "export", place(), "-o", into, "--force"}), ExitCode::kDone);
  EXPECT_NE(err_.str().find("passed over"), std::string::npos);
  EXPECT_EQ(muster({"checkpoint", "export", "--step", "10", place(), "-o", into + "2"}),
            ExitCode::kEnvironment);
}

TEST_F(CheckpointCommandTest, ExportBlamesThePlaceThatItCannotWriteTo) {
  save(5);
  save(10);
  EXPECT_EQ(muster({"checkpoint", "export", place(), "-o", "/proc/none"}), ExitCode::kEnvironment);
  EXPECT_EQ(err_.str().find("passed over"), std::string::npos) << err_.str();
  EXPECT_NE(err_.str().find("cannot write to /proc/none"), std::string::npos) << err_.str();
  EXPECT_NE(err_.str().find("No such file or directory"), std::string::npos) << err_.str();
  const auto into = run_ / "weights";
  std::filesystem::create_directories(into / "model.safetensors");  // a folder
  EXPECT_EQ(muster({"checkpoint", "export", place(), "--force", "-o", into.native()}),
            ExitCode::kEnvironment);
  EXPECT_NE(err_.str().find("cannot write to " + into.native()), std::string::npos) << err_.str();
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(into), {}), 1);
}

TEST_F(CheckpointCommandTest, MarksAndExportsTheBest) {
  save(5);
  EXPECT_EQ(muster({"checkpoint", "export", place(), "--best"}), ExitCode::kEnvironment);
  EXPECT_NE(err_.str().find("holds no best checkpoint"), std::string::npos) << err_.str();
  weight_[0] = 9;
  save(10, R"({"best_step":5})");
  EXPECT_EQ(muster({"checkpoint", "list", place()}), ExitCode::kDone);
  EXPECT_NE(out_.str().find("step-00000005  (best)\n"), std::string::npos) << out_.str();
  EXPECT_EQ(muster({"checkpoint", "list", "--json", place()}), ExitCode::kDone);
  EXPECT_EQ(answer()[0]["best"], true);
  EXPECT_EQ(answer()[1]["best"], false);
  const std::string into = (run_ / "weights").native();
  EXPECT_EQ(muster({"checkpoint", "export", place(), "--best", "-o", into}), ExitCode::kDone);
  EXPECT_NE(out_.str().find("step-00000005"), std::string::npos);
}

// The last one that is whole counts, as it does for an export.
TEST_F(CheckpointCommandTest, MarksOneAttemptAsTheBest) {
  save(5);
  save(10, R"({"best_step":5})");
  const auto first = run_ / "checkpoints/step-00000005";
  std::filesystem::copy(first, run_ / "checkpoints/step-00000005.1",
                        std::filesystem::copy_options::recursive);
  std::filesystem::create_directories(run_ / "checkpoints/step-00000005.2");
  EXPECT_EQ(muster({"checkpoint", "list", "--json", place()}), ExitCode::kDone);
  std::vector<std::string> best;
  for (const auto& one : answer())
    if (one["best"] == true) best.push_back(one["folder"]);
  EXPECT_EQ(best, std::vector{first.native() + ".1"});
  EXPECT_EQ(muster({"checkpoint", "list", place()}), ExitCode::kDone);
  EXPECT_NE(out_.str().find("step-00000005.1  (best)\n"), std::string::npos) << out_.str();
  EXPECT_EQ(out_.str().find("(best)"), out_.str().rfind("(best)")) << out_.str();
  EXPECT_EQ(muster({"checkpoint", "export", place(), "--best", "-o", (run_ / "weights").native()}),
            ExitCode::kDone);
  EXPECT_NE(out_.str().find("step-00000005.1\n"), std::string::npos) << out_.str();
}

// The best of all was not saved.
TEST_F(CheckpointCommandTest, ExportsTheBestThatIsThere) {
  save(5, R"({"best_step":5})");
  save(10, R"({"best_step":5})");
  save(15, R"({"best_step":12})");
  EXPECT_EQ(muster({"checkpoint", "list", place()}), ExitCode::kDone);
  EXPECT_NE(out_.str().find("step-00000005  (best)\n"), std::string::npos) << out_.str();
  EXPECT_EQ(muster({"checkpoint", "export", place(), "--best", "-o", (run_ / "weights").native()}),
            ExitCode::kDone);
  EXPECT_NE(out_.str().find("step-00000005\n"), std::string::npos) << out_.str();
  EXPECT_NE(err_.str().find("the best evaluation was after step 12, whose weights were not kept; "
                            "those of step 5 are the best that are there"),
            std::string::npos)
      << err_.str();
}

TEST_F(CheckpointCommandTest, SaysWhatIsMissing) {
  EXPECT_EQ(muster({"checkpoint", "list", place()}), ExitCode::kEnvironment);
  EXPECT_NE(err_.str().find("no checkpoint in"), std::string::npos) << err_.str();
  EXPECT_EQ(muster({"checkpoint", "verify", "/no/such/run"}), ExitCode::kEnvironment);
  EXPECT_NE(err_.str().find("/no/such/run"), std::string::npos);
  EXPECT_EQ(muster({"checkpoint"}), ExitCode::kUsage);
  EXPECT_EQ(muster({"checkpoint", "list"}), ExitCode::kUsage);
}

TEST_F(CheckpointCommandTest, ShowsExamples) {
  EXPECT_EQ(muster({"checkpoint", "export", "--help"}), ExitCode::kDone);
  EXPECT_NE(out_.str().find("Examples:\n  muster checkpoint export"), std::string::npos);
}

}  // namespace
}  // namespace muster::cli
