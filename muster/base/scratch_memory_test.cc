#include "muster/base/scratch_memory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "muster/testing/temp_folder.h"

namespace muster {
namespace {

constexpr std::size_t kLarge = 20 << 20;  // an extent of its own

bool is_aligned(std::span<const std::byte> bytes) {
  return reinterpret_cast<std::uintptr_t>(bytes.data()) % 64 == 0;
}

// Of a mapping that begins there, as the system counts it.
std::size_t resident_bytes(const std::byte* mapping) {
  const std::string maps = system_files().read("/proc/self/smaps").value();
  const std::size_t begin =
      maps.find(fmt::format("{:x}-", reinterpret_cast<std::uintptr_t>(mapping)));
  EXPECT_NE(begin, std::string::npos);
  constexpr std::string_view kLabel = "\nRss:";
  const std::size_t label = maps.find(kLabel, begin);
  EXPECT_NE(label, std::string::npos);
  return std::stoull(maps.substr(label + kLabel.size())) * 1024;
}

TEST(ScratchMemory, KeepsWhatIsReleased) {
  testing::TempFolder folder;
  const auto memory = create_scratch_memory(folder.path());
  ASSERT_TRUE(memory) << memory.error().message;
  std::vector<std::span<std::byte>> pieces;
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{100'000}, kLarge, std::size_t{0}, std::size_t{5}}) {
    const auto piece = (*memory)->take(bytes);
    ASSERT_TRUE(piece) << piece.error().message;
    EXPECT_EQ(piece->size(), bytes);
    EXPECT_TRUE(is_aligned(*piece));
    EXPECT_TRUE(std::ranges::all_of(*piece, [](std::byte b) { return b == std::byte{0}; }));
    pieces.push_back(*piece);
  }
  for (std::size_t i = 0; i < pieces.size(); ++i)
    std::ranges::fill(pieces[i], static_cast<std::byte>(i + 1));
  for (const auto piece : pieces) (*memory)->release(piece);
  for (const auto piece : pieces) (*memory)->fetch(piece);
  for (std::size_t i = 0; i < pieces.size(); ++i)
    EXPECT_TRUE(std::ranges::all_of(
        pieces[i], [i](std::byte b) { return b == static_cast<std::byte>(i + 1); }));
}

TEST(ScratchMemory, HasNoName) {
  testing::TempFolder folder;
  const auto memory = create_scratch_memory(folder.path());
  ASSERT_TRUE(memory) << memory.error().message;
  ASSERT_TRUE((*memory)->take(kLarge));
  EXPECT_TRUE(system_files().list(folder.path()).value().empty());
}

TEST(ScratchMemory, SaysWhatThereIsNoRoomFor) {
  testing::TempFolder folder;
  const auto memory = create_scratch_memory(folder.path());
  ASSERT_TRUE(memory) << memory.error().message;
  const auto first = (*memory)->take(10);
  ASSERT_TRUE(first);
  const auto piece =
      (*memory)->take(std::size_t{1} << 60);  // more than any disk, and any file, has
  ASSERT_FALSE(piece);
  EXPECT_EQ(piece.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(piece.error().message.find("[scratch/allocate] "), std::string::npos);
  EXPECT_NE(piece.error().message.find(folder.path().native()), std::string::npos);
  (*first)[9] = std::byte{7};  // what was there stays
  ASSERT_TRUE((*memory)->take(10));
}

TEST(ScratchMemory, NeedsAFolder) {
  testing::TempFolder folder;
  const auto memory = create_scratch_memory(folder / "none");
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(memory.error().message.starts_with("[scratch/open] ")) << memory.error().message;
}

// What is no longer wanted is in memory no more.
TEST(ScratchMemory, GivesMemoryBack) {
  testing::TempFolder folder;
  const auto memory = create_scratch_memory(folder.path());
  ASSERT_TRUE(memory) << memory.error().message;
  const auto piece = (*memory)->take(kLarge);
  ASSERT_TRUE(piece);
  std::ranges::fill(*piece, std::byte{3});
  EXPECT_EQ(resident_bytes(piece->data()), kLarge);
  (*memory)->release(*piece);
  EXPECT_EQ(resident_bytes(piece->data()), 0u);
  EXPECT_EQ((*piece)[kLarge / 2], std::byte{3});
}

}  // namespace
}  // namespace muster
