#include "muster/data/gzip.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "muster/base/checksum.h"
#include "muster/data/testing/packed.h"
#include "muster/testing/temp_folder.h"

namespace muster::data {
namespace {

using muster::testing::TempFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Gzip : public ::testing::Test {
 protected:
  void write(const Path& path, const std::string& content) const {
    std::ofstream(path, std::ios::binary) << content;
  }

  // What a file of `packed` holds, or why it is refused.
  std::string inflated(const std::string& packed, const Path& cache = {}) const {
    write(file_, packed);
    const auto content = read_maybe_gzip(system_files(), file_, cache);
    if (!content) {
      EXPECT_EQ(content.error().code, ErrorCode::kCorrupt);
      EXPECT_THAT(content.error().message, HasSubstr("[data/gzip] " + file_.string()));
      return content.error().message;
    }
    return {reinterpret_cast<const char*>(content->bytes.data()), content->bytes.size()};
  }

  std::string inflated_once(const std::string& packed) const { return inflated(packed, cache_); }

  std::vector<std::string> copies() const {
    const auto names = system_files().list(cache_);
    return names ? *names : std::vector<std::string>();
  }

  TempFolder folder_;
  const Path file_ = folder_ / "data.gz";
  const Path cache_ = folder_ / "cache";
};

// Large enough to be worth a copy.
std::string many(char letter) { return std::string(std::size_t{3} << 20, letter); }

TEST_F(Gzip, MembersAreInflatedOneBehindTheOther) {
  EXPECT_EQ(inflated(gzip("one ") + gzip("two ") + gzip("three")), "one two three");
}

TEST_F(Gzip, AnEmptyMemberHoldsNothing) {
  const std::string none = gzip("");
  EXPECT_EQ(inflated(none), "");
  EXPECT_EQ(inflated(none + none), "");
  EXPECT_EQ(inflated(none + gzip("one ") + none + gzip("two") + none), "one two");
}

// As bgzip makes them: what the last trailer says is no hint of how much there is.
TEST_F(Gzip, TheLastTrailerIsNoMeasureOfTheWhole) {
  std::string packed, text;
  for (int member = 0; member < 100; ++member) {
    const std::string part(static_cast<std::size_t>(member) * 1000, static_cast<char>(member));
    packed += gzip(part);
    text += part;
  }
  EXPECT_EQ(inflated(packed + gzip("")), text);
  EXPECT_EQ(inflated(gzip(many('a')) + gzip("b")), many('a') + "b");
  EXPECT_EQ(inflated(gzip("a") + gzip(many('b'))), "a" + many('b'));
}

TEST_F(Gzip, ADamagedMemberIsNamedWithItsPlace) {
  const std::string first = gzip("the first member"), second = gzip("the second member");
  for (const std::size_t at : {std::size_t{12}, second.size() - 6, second.size() - 2}) {
    std::string broken = second;
    broken[at] = static_cast<char>(broken[at] ^ 0x10);
    EXPECT_THAT(inflated(first + broken + first),
                AllOf(HasSubstr(fmt::format("gzip member 2, from byte {} of {}", first.size(),
                                            2 * first.size() + second.size())),
                      HasSubstr("data, checksum or length is wrong")));
  }
}

TEST_F(Gzip, AFileCutShortIsRefusedButBetweenMembers) {
  const std::string first = gzip("the first member"), second = gzip("the second member");
  const std::string whole = first + second;
  for (std::size_t size = 2; size < whole.size(); ++size) {
    const std::string held = inflated(whole.substr(0, size));
    if (size == first.size())
      EXPECT_EQ(held, "the first member");
    else
      EXPECT_THAT(held, HasSubstr("fetch the file again")) << size;
  }
}

TEST_F(Gzip, ZerosAfterTheLastMemberAreNothing) {
  EXPECT_EQ(inflated(gzip("one") + std::string(1, '\0')), "one");
  EXPECT_EQ(inflated(gzip("one ") + gzip("two") + std::string(512, '\0')), "one two");
}

TEST_F(Gzip, AnythingElseAfterTheLastMemberIsNamedWithItsPlace) {
  const std::string one = gzip("one"), two = gzip("two");
  const std::size_t size = one.size() + two.size();
  EXPECT_THAT(inflated(one + two + "more"),
              AllOf(HasSubstr(fmt::format("begins at byte {} of {}", size, size + 4)),
                    HasSubstr("2 members end before it"),
                    HasSubstr(fmt::format("keep the first {} bytes alone", size))));
  EXPECT_THAT(inflated(one + std::string(3, '\0') + two),
              AllOf(HasSubstr(fmt::format("begins at byte {} of", one.size() + 3)),
                    HasSubstr("1 member ends before it")));
}

TEST_F(Gzip, SmallFilesLeaveNoCopy) {
  EXPECT_EQ(inflated_once(gzip("one ") + gzip("two")), "one two");
  EXPECT_TRUE(copies().empty());
}

TEST_F(Gzip, ACopyOfManyMembersIsWhatLaterReadsMap) {
  const std::string packed = gzip(many('a')) + gzip(many('b')) + gzip("");
  EXPECT_EQ(inflated_once(packed), many('a') + many('b'));
  ASSERT_EQ(copies().size(), 1U);
  const std::string other = many('c');
  const std::uint64_t sum = checksum_of(std::as_bytes(std::span(other)));
  write(cache_ / copies()[0], other + std::string(reinterpret_cast<const char*>(&sum), sizeof sum));
  EXPECT_EQ(inflated_once(packed), other);
}

TEST_F(Gzip, ADamagedCopyOfManyMembersIsMadeAnew) {
  const std::string packed = gzip(many('a')) + gzip("b");
  const std::string text = many('a') + "b";
  EXPECT_EQ(inflated_once(packed), text);
  ASSERT_EQ(copies().size(), 1U);
  const Path at = cache_ / copies()[0];
  const std::string whole = *system_files().read(at);
  for (const std::string& broken :
       {std::string(), whole.substr(0, 7), whole.substr(0, 8), whole.substr(1), whole + "x",
        std::string(8, '\0'), whole.substr(0, 99) + '!' + whole.substr(100)}) {
    write(at, broken);
    EXPECT_EQ(inflated_once(packed), text);
    EXPECT_EQ(*system_files().read(at), whole);
  }
}

TEST_F(Gzip, ACopyOfTheLastMemberIsNoneOfTheFile) {
  const std::string last = gzip(many('b'));
  EXPECT_EQ(inflated_once(last), many('b'));
  EXPECT_EQ(inflated_once(gzip(many('a')) + last), many('a') + many('b'));
  EXPECT_EQ(inflated_once(last + std::string(512, '\0')), many('b'));
}

TEST_F(Gzip, AnotherFirstMemberIsAnotherFile) {
  const std::string a = gzip(many('a'), 0), b = gzip(many('b'), 0), last = gzip("last");
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(inflated_once(a + last), many('a') + "last");
  EXPECT_EQ(inflated_once(b + last), many('b') + "last");
}

TEST_F(Gzip, WhatIsBrokenLeavesNoCopy) {
  EXPECT_THAT(inflated_once(gzip(many('a')) + "more"), HasSubstr("neither zeros"));
  EXPECT_THAT(inflated_once(gzip(many('a')) + gzip("b").substr(0, 20)), HasSubstr("member 2"));
  EXPECT_TRUE(copies().empty());
}

}  // namespace
}  // namespace muster::data
