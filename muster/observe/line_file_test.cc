#include "muster/observe/line_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/testing/fake_clock.h"
#include "muster/testing/faulty_files.h"
#include "muster/testing/memory_files.h"

namespace muster::observe {
namespace {

using muster::testing::Fault;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const Path kLines = "/lines";

class LineFileTest : public ::testing::Test {
 protected:
  void open() {
    auto file = LineFile::open(files_, kLines, clock_, "[test]",
                               [this](const Error& error) { told_.push_back(error.message); });
    ASSERT_TRUE(file) << file.error().message;
    file_ = std::make_unique<LineFile>(std::move(*file));
  }
  bool append(const std::string& line, std::int64_t step) {
    return file_->append(line + "\n", LineFile::Steps{Step{step}, Step{step}});
  }
  // Comes when the next try is due, and fails like this.
  bool append_later(const std::string& line, std::int64_t step, Fault fault) {
    clock_.advance(LineFile::kTriesAgainAfter);
    files_.fail_at(0, fault);
    return append(line, step);
  }
  // More than memory is given for, of lines from step 1 on; the step of the first that is lost.
  std::int64_t fill() {
    files_.fail_at(0, Fault::kNoSpace);
    const std::string megabyte(1 << 20, 'x');
    std::int64_t step = 1;
    while (append(megabyte, step)) ++step;
    return step;
  }
  std::string text() { return memory_.read(kLines).value(); }

  testing::MemoryFiles memory_;
  testing::FaultyFiles files_{memory_};
  testing::FakeClock clock_;
  std::vector<std::string> told_;
  std::unique_ptr<LineFile> file_;
};

TEST_F(LineFileTest, ADiskThatWasFullForAMomentLosesNothing) {
  for (const Fault fault : {Fault::kNoSpace, Fault::kShortWrite, Fault::kIoError}) {
    told_.clear();
    ASSERT_TRUE(memory_.remove_all(kLines));
    open();
    EXPECT_TRUE(append("one", 1));
    files_.fail_at(0, fault);
    EXPECT_TRUE(append("two", 2));
    EXPECT_TRUE(append("three", 3));
    EXPECT_TRUE(append_later("four", 4, fault));
    EXPECT_THAT(text(), AllOf(HasSubstr("one\n"), Not(HasSubstr("two\n"))));
    clock_.advance(LineFile::kTriesAgainAfter);
    EXPECT_TRUE(append("five", 5));
    EXPECT_EQ(text(), "one\ntwo\nthree\nfour\nfive\n") << "no line is torn, nor there twice";
    file_.reset();
    EXPECT_THAT(told_, ElementsAre(AllOf(HasSubstr("[test] /lines cannot be written now"),
                                         HasSubstr("[files/planted]"))));
  }
}

TEST_F(LineFileTest, TriesAgainOnceASecond) {
  open();
  files_.fail_at(0, Fault::kNoSpace);
  append("one", 1);
  const std::uint64_t calls = files_.calls();
  for (std::int64_t step = 2; step < 100; ++step) append("more", step);
  EXPECT_EQ(files_.calls(), calls);
  clock_.advance(LineFile::kTriesAgainAfter);
  append("last", 100);
  EXPECT_EQ(files_.calls(), calls + 100);
}

TEST_F(LineFileTest, TriesAgainAsItGoes) {
  open();
  files_.fail_at(0, Fault::kShortWrite);
  append("one", 1);
  file_.reset();
  EXPECT_EQ(text(), "one\n");
  EXPECT_EQ(told_.size(), 1u);
}

TEST_F(LineFileTest, NamesWhatFoundNoRoomWhenItIsWrittenAgainAndAtTheEnd) {
  open();
  const std::int64_t lost = fill();
  EXPECT_FALSE(append("also lost", lost + 1)) << "what waits longer comes first";
  EXPECT_EQ(told_.size(), 1u);
  clock_.advance(LineFile::kTriesAgainAfter);
  EXPECT_TRUE(append("kept", lost + 2));
  const std::string loss = fmt::format("/lines lacks 2 lines, of steps {} to {}", lost, lost + 1);
  ASSERT_EQ(told_.size(), 2u);
  EXPECT_THAT(told_[1], HasSubstr(loss));
  EXPECT_TRUE(append("kept too", lost + 3));
  EXPECT_TRUE(text().ends_with("x\nkept\nkept too\n"));
  file_.reset();
  ASSERT_EQ(told_.size(), 3u);
  EXPECT_THAT(told_[2], HasSubstr(loss));
}

TEST_F(LineFileTest, NamesAtTheEndWhatStillWaits) {
  open();
  files_.fail_at(0, Fault::kNoSpace);
  append("one", 1);
  append("two", 2);
  files_.fail_at(0, Fault::kNoSpace);
  file_.reset();
  EXPECT_EQ(text(), "");
  ASSERT_EQ(told_.size(), 2u);
  EXPECT_THAT(told_[1], HasSubstr("lacks 2 lines, of steps 1 to 2"));
}

TEST_F(LineFileTest, GoesOnWhereSomebodyMadeRoomByEmptyingIt) {
  open();
  append("one", 1);
  files_.fail_at(0, Fault::kShortWrite);
  append("two", 2);
  ASSERT_TRUE(memory_.open(kLines, Files::Open::kTruncate));
  clock_.advance(LineFile::kTriesAgainAfter);
  append("three", 3);
  EXPECT_EQ(text(), "two\nthree\n");
}

TEST_F(LineFileTest, AFullDiskDoesNotKeepATornFileFromBeingOpened) {
  ASSERT_TRUE(
      (*memory_.open(kLines, Files::Open::kAppend))->append(std::as_bytes(std::span("torn", 4))));
  files_.fail_at(1, Fault::kNoSpace);
  open();
  EXPECT_EQ(told_.size(), 1u);
  clock_.advance(LineFile::kTriesAgainAfter);
  append("one", 1);
  EXPECT_EQ(text(), "torn\none\n");
}

TEST_F(LineFileTest, SaysOnceThatItHasBeenDeleted) {
  open();
  EXPECT_TRUE(append("one", 1));
  ASSERT_TRUE(memory_.remove_all(kLines));
  EXPECT_TRUE(append("two", 2));
  EXPECT_THAT(told_, IsEmpty()) << "looked at once a second";
  for (int i = 0; i < 3; ++i) {
    clock_.advance(LineFile::kLooksAfter);
    append("three", 3);
  }
  EXPECT_THAT(told_, ElementsAre(AllOf(HasSubstr("[test] there is no /lines any more"),
                                       HasSubstr("moved or deleted"))));
}

TEST_F(LineFileTest, SaysNothingWhereAllIsWritten) {
  open();
  append("one", 1);
  file_.reset();
  EXPECT_THAT(told_, IsEmpty());
}

}  // namespace
}  // namespace muster::observe
