#include "muster/net/message.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

namespace muster::net {
namespace {

Bytes bytes_of(const std::vector<std::uint8_t>& raw) {
  Bytes bytes(raw.size());
  std::transform(raw.begin(), raw.end(), bytes.begin(), [](auto b) { return std::byte{b}; });
  return bytes;
}

TEST(Message, ComesBackAsItWas) {
  const nlohmann::json sent = {{"step", 3}, {"text", "grüße"}, {"list", {-1, nullptr, true}}};
  nlohmann::json body;
  const auto kind = decode_message(4, encode_message(4, "report", sent), body);
  ASSERT_TRUE(kind) << kind.error().message;
  EXPECT_EQ(*kind, "report");
  EXPECT_EQ(body, sent);
}

TEST(Message, AnotherVersionIsNamed) {
  nlohmann::json body;
  const auto kind = decode_message(4, encode_message(5, "report", {}), body);
  ASSERT_FALSE(kind);
  EXPECT_EQ(kind.error().code, ErrorCode::kUnsupported);
}

TEST(Message, EveryTruncationIsRefused) {
  const auto whole = encode_message(1, "join", {{"a", "bcd"}, {"n", 70000}});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    nlohmann::json body;
    const auto kind = decode_message(1, std::span(whole).first(size), body);
    ASSERT_FALSE(kind) << size;
    EXPECT_EQ(kind.error().code, ErrorCode::kCorrupt);
  }
}

TEST(Message, FractionsAreRefused) {
  for (const double number : {0.5, -1e300, std::numeric_limits<double>::quiet_NaN()}) {
    nlohmann::json body;
    const auto kind = decode_message(1, encode_message(1, "heartbeat", {{"step", number}}), body);
    ASSERT_FALSE(kind) << number;
    EXPECT_EQ(kind.error().code, ErrorCode::kCorrupt);
  }
}

TEST(Message, NeitherDepthNorAnnouncedSizesExhaustAnything) {
  nlohmann::json body;
  const std::vector<std::uint8_t> nested(4'000'000, 0x81);  // an array of one in an array of one …
  EXPECT_FALSE(decode_message(1, bytes_of(nested), body));
  for (const std::uint8_t type : {0x5b, 0x7b, 0x9b, 0xbb}) {  // bytes, text, array, map of 2^63
    const std::vector<std::uint8_t> huge{type, 0x80, 0, 0, 0, 0, 0, 0, 0, 1};
    EXPECT_FALSE(decode_message(1, bytes_of(huge), body));
  }
}

RC_GTEST_PROP(Message, ArbitraryBytesNeverCrash, (const std::vector<std::uint8_t>& raw)) {
  nlohmann::json body;
  (void)decode_message(1, bytes_of(raw), body);
}

RC_GTEST_PROP(Message, DamagedMessagesNeverCrash, (std::size_t at, std::uint8_t value)) {
  auto bytes = encode_message(1, "join", {{"a", {1, 2, {{"b", "c"}}}}, {"n", 70000}});
  bytes[at % bytes.size()] = std::byte{value};
  nlohmann::json body;
  (void)decode_message(1, bytes, body);
}

}  // namespace
}  // namespace muster::net
