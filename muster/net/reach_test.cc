#include "muster/net/reach.h"

#include <gtest/gtest.h>

#include <array>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <string>
#include <thread>
#include <vector>

#include "muster/net/testing/bare_door.h"

namespace muster::net {
namespace {

using testing::BareDoor;

const Exchange kKnown{.question = "who", .answer = "me"};

Deadline long_enough() { return Deadline::after(system_clock(), std::chrono::seconds(30)); }
Deadline soon_over() { return Deadline::after(system_clock(), std::chrono::milliseconds(300)); }

// Each who comes is read `question` from and told the next of `answers`.
void serve(BareDoor& door, const std::vector<std::string>& answers) {
  for (const std::string& answer : answers) {
    auto client = door.accept();
    std::array<char, 3> question{};
    asio::read(client, asio::buffer(question));
    EXPECT_EQ(std::string(question.data(), question.size()), kKnown.question);
    asio::write(client, asio::buffer(answer));
  }
}

TEST(Reach, AServerIsAwaitedWhileAnotherAnswersInItsPlace) {
  BareDoor door;
  std::jthread server([&] { serve(door, {"HTTP/1.1 400", "", "me"}); });
  const Status there = await_server(door.address(), kKnown, long_enough());
  EXPECT_TRUE(there) << there.error().message;
}

TEST(Reach, AnotherServerIsTold) {
  BareDoor door;
  const Status silent = await_server(door.address(), kKnown, soon_over());
  ASSERT_FALSE(silent) << "nobody answered";
  EXPECT_EQ(silent.error().code, ErrorCode::kTimeout);
  EXPECT_NE(silent.error().message.find("is another server"), std::string::npos)
      << silent.error().message;
}

TEST(Reach, NobodyIsTold) {
  const Address nobody = BareDoor().address();
  const Status there = await_server(nobody, kKnown, soon_over());
  ASSERT_FALSE(there);
  EXPECT_EQ(there.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(there.error().message.find("nobody answers at " + to_string(nobody)), std::string::npos)
      << there.error().message;
}

// 198.51.100.0/24 is for documentation: this host has no address of it, whether or not a way leads
// there.
TEST(Reach, AnAddressIsOnesOwnOrNot) {
  for (const char* own : {"127.0.0.1", "localhost", "0.0.0.0"})
    EXPECT_TRUE(is_own_host(own).value_or(false)) << own;
  EXPECT_FALSE(is_own_host("198.51.100.7").value_or(true));
  EXPECT_FALSE(is_own_host("no.such.host.invalid"));
}

TEST(Reach, WhereOneCouldListenIsLeftFree) {
  EXPECT_TRUE(check_listen({"127.0.0.1", 0}));
  const Address address = BareDoor().address();
  EXPECT_TRUE(check_listen(address));
  EXPECT_TRUE(check_listen(address)) << "the first has kept it";
}

TEST(Reach, WhereOneCannotListenIsToldWithItsReason) {
  BareDoor door;
  for (const Address& taken : {door.address(), Address{"198.51.100.7", 0}}) {
    const Status free = check_listen(taken);
    ASSERT_FALSE(free) << to_string(taken);
    EXPECT_EQ(free.error().code, ErrorCode::kUnavailable);
    EXPECT_NE(free.error().message.find("cannot listen at " + to_string(taken)), std::string::npos)
        << free.error().message;
  }
}

}  // namespace
}  // namespace muster::net
