#include "muster/net/credentials.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace muster::net {
namespace {

Credentials fresh() { return create_credentials(system_clock().wall()).value(); }

TEST(Credentials, TravelAsOneLine) {
  const auto made = fresh();
  const auto text = to_text(made);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 0);
  const auto read = credentials_from_text(text);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->certificate_pem(), made.certificate_pem());
  EXPECT_EQ(read->private_key_pem(), made.private_key_pem());
  EXPECT_EQ(read->job(), made.job());
}

TEST(Credentials, EachJobHasItsOwn) {
  const auto one = fresh();
  const auto two = fresh();
  EXPECT_NE(one.job(), two.job());
  EXPECT_NE(one.private_key_pem(), two.private_key_pem());
}

TEST(Credentials, AKeyOfAnotherJobIsRefused) {
  const auto mixed = parse_credentials(fresh().certificate_pem(), fresh().private_key_pem());
  ASSERT_FALSE(mixed);
  EXPECT_EQ(mixed.error().code, ErrorCode::kInvalid);
}

TEST(Credentials, DamagedTextIsRefusedWithoutShowingIt) {
  const auto text = to_text(fresh());
  for (const auto& bad : {std::string(), std::string("nonsense"), text.substr(0, text.size() / 2),
                          text.substr(4), text + text, text + "AAAA", std::string(100'000, 'A')}) {
    const auto read = credentials_from_text(bad);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, ErrorCode::kInvalid);
    EXPECT_EQ(read.error().message.find("PRIVATE"), std::string::npos);
  }
}

}  // namespace
}  // namespace muster::net
