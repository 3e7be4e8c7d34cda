#include "muster/net/frame.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace muster::net {
namespace {

FrameHeader sample() {
  return {kFirstCommFrame, 0x1122334455667788, Generation{7}, Rank{3}, 0xa, 0xb, 0xc, 0xd00000001};
}

TEST(Frame, ComesBackAsItWas) {
  const auto decoded = decode_header(encode_header(sample()));
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(*decoded, sample());
}

TEST(Frame, EveryFlippedBitIsFound) {
  const auto good = encode_header(sample());
  for (std::size_t bit = 0; bit < 8 * kHeaderBytes; ++bit) {
    auto bytes = good;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    const auto decoded = decode_header(bytes);
    ASSERT_FALSE(decoded) << "bit " << bit;
    EXPECT_EQ(decoded.error().code, ErrorCode::kCorrupt);
  }
}

RC_GTEST_PROP(Frame, ArbitraryBytesAreRefused,
              (const std::array<std::uint8_t, kHeaderBytes>& raw)) {
  std::array<std::byte, kHeaderBytes> bytes;
  std::transform(raw.begin(), raw.end(), bytes.begin(), [](auto b) { return std::byte{b}; });
  RC_ASSERT(!decode_header(bytes));
}

RC_GTEST_PROP(Frame, ArbitraryHeadersComeBack,
              (std::uint16_t kind, std::uint64_t job, std::uint64_t generation, std::uint32_t tag,
               std::uint64_t length)) {
  const auto sender = *rc::gen::inRange(-1, 1 << 30);
  const FrameHeader header{kind,    job,   Generation{generation}, Rank{sender}, tag, ~tag,
                           tag / 2, length};
  const auto decoded = decode_header(encode_header(header));
  RC_ASSERT(decoded.has_value());
  RC_ASSERT(*decoded == header);
}

TEST(Frame, PolicyRefusesJobSizeAndAge) {
  const FramePolicy policy{sample().job, Generation{7}, sample().length};
  EXPECT_TRUE(check_frame(sample(), policy));
  auto other_job = sample();
  ++other_job.job;
  EXPECT_EQ(check_frame(other_job, policy).error().code, ErrorCode::kInvalid);
  auto too_long = sample();
  ++too_long.length;
  EXPECT_EQ(check_frame(too_long, policy).error().code, ErrorCode::kInvalid);
  auto old = sample();
  old.generation = Generation{6};
  const auto refused = check_frame(old, policy);
  EXPECT_EQ(refused.error().code, ErrorCode::kStale);
  EXPECT_EQ(refused.error().peer, Rank{3});
  auto newer = sample();
  newer.generation = Generation{8};
  EXPECT_TRUE(check_frame(newer, policy));
}

}  // namespace
}  // namespace muster::net
