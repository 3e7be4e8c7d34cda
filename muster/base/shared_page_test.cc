#include "muster/base/shared_page.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "muster/base/files.h"

namespace muster {
namespace {

constexpr std::size_t kBytes = 5000;

TEST(SharedPage, IsTheSameForBothAndOutlivesTheOther) {
  const auto page = SharedPage::create(kBytes);
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_EQ((*page)->bytes().size(), kBytes);
  EXPECT_EQ((*page)->bytes()[kBytes - 1], std::byte{0});
  {
    const auto other = SharedPage::open((*page)->address(), kBytes);
    ASSERT_TRUE(other) << other.error().message;
    (*other)->bytes()[kBytes - 1] = std::byte{7};
  }
  EXPECT_EQ((*page)->bytes()[kBytes - 1], std::byte{7});
}

TEST(SharedPage, IsAFileForOtherPrograms) {
  const std::string text = "a: 1\n";
  const auto page = SharedPage::create(text.size());
  ASSERT_TRUE(page) << page.error().message;
  std::ranges::copy(std::as_bytes(std::span(text)), (*page)->bytes().begin());
  EXPECT_EQ(system_files().read((*page)->path()).value_or("nothing"), text);
}

TEST(SharedPage, WhatIsNoneIsRefused) {
  for (const char* address : {"", "x", "1", "1:", ":1", "1:2x", "-1:2"})
    EXPECT_EQ(SharedPage::open(address, kBytes).error().code, ErrorCode::kInvalid) << address;
  const auto page = SharedPage::create(kBytes);
  ASSERT_TRUE(page);
  const std::string address = (*page)->address();
  EXPECT_EQ(SharedPage::open(address, kBytes + 1).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(SharedPage::open(address + "00000", kBytes).error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace muster
