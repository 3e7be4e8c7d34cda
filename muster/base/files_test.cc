#include "muster/base/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

#include "muster/testing/temp_folder.h"

namespace muster {
namespace {

class FilesTest : public ::testing::Test {
 protected:
  static std::span<const std::byte> bytes(std::string_view text) {
    return std::as_bytes(std::span(text));
  }
  Status write(const Path& path, std::string_view text, Files::Open how) {
    MUSTER_ASSIGN(const auto file, files_.open(path, how));
    MUSTER_TRY(file->append(bytes(text)));
    MUSTER_TRY(file->sync());
    return file->close();
  }

  testing::TempFolder folder_;
  Files& files_ = system_files();
};

TEST_F(FilesTest, ManyMayLinkAtTheSameTime) {
  constexpr int kThreads = 8;
  std::atomic<int> failed = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      for (int turn = 0; turn < 200; ++turn)
        if (!files_.link(std::to_string(i), folder_ / "latest")) ++failed;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(files_.list(folder_.path()).value(), std::vector<std::string>{"latest"});
}

TEST_F(FilesTest, AFileThatCannotBeWrittenLeavesNoHalf) {
  ASSERT_TRUE(files_.create_folders(folder_ / "there/inside"));  // so that nothing replaces it
  EXPECT_FALSE(write_atomically(files_, folder_ / "there", "text"));
  EXPECT_EQ(files_.list(folder_.path()).value(), std::vector<std::string>{"there"});
}

TEST_F(FilesTest, WritesAppendsAndTruncates) {
  const Path path = folder_ / "a";
  ASSERT_TRUE(write(path, "one", Files::Open::kTruncate));
  ASSERT_TRUE(write(path, "two", Files::Open::kAppend));
  EXPECT_EQ(files_.read(path).value(), "onetwo");
  EXPECT_EQ(files_.size(path).value(), 6u);
  ASSERT_TRUE(write(path, "3", Files::Open::kTruncate));
  EXPECT_EQ(files_.read(path).value(), "3");
  EXPECT_FALSE(write(path, "", Files::Open::kExclusive));
  EXPECT_TRUE(write(folder_ / "b", "", Files::Open::kExclusive));
  EXPECT_FALSE(write(path, "", Files::Open::kSecret));
  EXPECT_TRUE(write(folder_ / "c", "", Files::Open::kSecret));
  EXPECT_EQ(std::filesystem::status(folder_ / "c").permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(FilesTest, ReadsPartsAndMaps) {
  const Path path = folder_ / "a";
  const std::string text(100'000, 'x');
  ASSERT_TRUE(write(path, text + "end", Files::Open::kTruncate));
  std::array<std::byte, 8> into{};
  EXPECT_EQ(files_.read_at(path, text.size(), into).value(), 3u);
  EXPECT_EQ(into[0], std::byte{'e'});
  EXPECT_EQ(files_.read_at(path, 1 << 20, into).value(), 0u);
  EXPECT_EQ(files_.read_at(path, ~std::uint64_t{0}, into).value(), 0u);
  const auto mapped = files_.map(path);
  ASSERT_TRUE(mapped);
  EXPECT_EQ((*mapped)->bytes().size(), text.size() + 3);
  EXPECT_EQ(files_.read(path).value(), text + "end");
}

TEST_F(FilesTest, MapsAnEmptyFile) {
  ASSERT_TRUE(write(folder_ / "a", "", Files::Open::kTruncate));
  EXPECT_TRUE(files_.map(folder_ / "a").value()->bytes().empty());
}

TEST_F(FilesTest, ReadsFilesThatDoNotKnowTheirLength) {
  EXPECT_FALSE(files_.read("/proc/self/status").value().empty());
}

TEST_F(FilesTest, ReadsNoMoreThanItIsAskedFor) {
  ASSERT_TRUE(write(folder_ / "a", "some text", Files::Open::kTruncate));
  EXPECT_EQ(files_.read_up_to(folder_ / "a", 4).value(), "some");
  EXPECT_EQ(files_.read_up_to(folder_ / "a", 100).value(), "some text");
  EXPECT_EQ(files_.read_up_to("/dev/zero", 100'000).value(), std::string(100'000, '\0'));
}

TEST_F(FilesTest, ReadsAPipeToItsEnd) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_EQ(::write(ends[1], "some text", 9), 9);
  ::close(ends[1]);
  const auto text = files_.read("/dev/fd/" + std::to_string(ends[0]));
  ::close(ends[0]);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text, "some text");
}

TEST_F(FilesTest, DoesNotWaitForANamedPipeWhereAFileIsWanted) {
  const Path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::array<std::byte, 4> some{};
  for (const Error& error : {files_.map(pipe).error(), files_.read_at(pipe, 0, some).error()})
    EXPECT_NE(error.message.find("is a pipe or a device"), std::string::npos) << error.message;
}

TEST_F(FilesTest, SaysWhichFileIsMissing) {
  const Path missing = folder_ / "no";
  for (const Error& error :
       {files_.read(missing).error(), files_.map(missing).error(), files_.list(missing).error(),
        files_.size(missing).error(), files_.rename(missing, folder_ / "other").error(),
        files_.sync_folder(missing).error()}) {
    EXPECT_EQ(error.code, ErrorCode::kNotFound);
    EXPECT_NE(error.message.find(missing.native() + ": No such file"), std::string::npos);
  }
  EXPECT_FALSE(files_.exists(folder_ / "no"));
  EXPECT_TRUE(files_.remove_all(folder_ / "no"));
}

TEST_F(FilesTest, AFullDiskIsUnavailable) {
  const auto file = files_.open("/dev/full", Files::Open::kAppend);
  ASSERT_TRUE(file);
  const Status status = (*file)->append(bytes("x"));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(status.error().message.find("/dev/full: No space left"), std::string::npos);
}

TEST_F(FilesTest, ReadingAFolderIsAnError) {
  EXPECT_FALSE(files_.read(folder_.path()));
  EXPECT_FALSE(files_.map(folder_.path()));
}

TEST_F(FilesTest, MakesListsLinksAndRemoves) {
  ASSERT_TRUE(files_.create_folders(folder_ / "x/y"));
  ASSERT_TRUE(files_.create_folders(folder_ / "x/y"));
  ASSERT_TRUE(write(folder_ / "x/b", "b", Files::Open::kTruncate));
  ASSERT_TRUE(write(folder_ / "x/a", "a", Files::Open::kTruncate));
  EXPECT_EQ(files_.list(folder_ / "x").value(), (std::vector<std::string>{"a", "b", "y"}));
  ASSERT_TRUE(files_.link("a", folder_ / "x/latest"));
  ASSERT_TRUE(files_.link("b", folder_ / "x/latest"));
  EXPECT_EQ(files_.read(folder_ / "x/latest").value(), "b");
  ASSERT_TRUE(files_.remove_all(folder_ / "x"));
  EXPECT_FALSE(files_.exists(folder_ / "x"));
}

TEST_F(FilesTest, ALockHasOneHolderAndEndsWithIt) {
  auto first = files_.lock(folder_ / "lock");
  ASSERT_TRUE(first) << first.error().message;
  ASSERT_NE(*first, nullptr);
  const auto second = files_.lock(folder_ / "lock");
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(*second, nullptr);
  EXPECT_NE(files_.lock(folder_ / "other").value(), nullptr);
  first->reset();
  EXPECT_NE(files_.lock(folder_ / "lock").value(), nullptr);
  EXPECT_EQ(files_.lock(folder_ / "no/lock").error().code, ErrorCode::kNotFound);
}

TEST_F(FilesTest, ReplacesAWholeFile) {
  ASSERT_TRUE(write_atomically(files_, folder_ / "a", "old"));
  ASSERT_TRUE(write_atomically(files_, folder_ / "a", "new"));
  EXPECT_EQ(files_.read(folder_ / "a").value(), "new");
  EXPECT_EQ(files_.list(folder_.path()).value(), std::vector<std::string>{"a"});
}

}  // namespace
}  // namespace muster
