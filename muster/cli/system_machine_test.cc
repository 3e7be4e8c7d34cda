#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>
#include <string>

#include "muster/base/unique_fd.h"
#include "muster/cli/machine.h"

namespace muster::cli {
namespace {

Result<std::string> output_of(const char* script) {
  return system_machine().output_of({"/bin/sh", "-c", script}, std::chrono::seconds(60));
}

TEST(SystemMachine, GivesWhatAProgramPrints) {
  EXPECT_EQ(output_of("echo yes; echo no >&2").value(), "yes\n");
}

TEST(SystemMachine, TheExitCodeSaysWhatKindOfErrorItIs) {
  const auto wrong = output_of("echo why; exit 2");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error(), fail(ErrorCode::kInvalid, "why"));
  EXPECT_EQ(output_of("exit 1").error().code, ErrorCode::kInternal);
  EXPECT_EQ(output_of("exit 3").error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(output_of("exit 4").error().code, ErrorCode::kNumeric);
}

TEST(SystemMachine, OfAProgramWithoutAWordItSaysHowItEnded) {
  EXPECT_NE(output_of("exit 7").error().message.find("/bin/sh ended with exit code 7"),
            std::string::npos);
  const Error killed = output_of("kill -9 $$").error();
  EXPECT_EQ(killed.code, ErrorCode::kUnavailable);
  EXPECT_NE(killed.message.find("/bin/sh was ended by Killed"), std::string::npos)
      << killed.message;
}

TEST(SystemMachine, AProgramMayWriteAsManyErrorsAsItLikes) {
  EXPECT_EQ(output_of("head -c 1000000 /dev/zero >&2; echo yes").value(), "yes\n");
}

TEST(SystemMachine, NothingIsLeftOfAProgramThatDoesNotAnswer) {
  const auto late = system_machine().output_of({"/bin/sh", "-c", "echo $$; sleep 1000 & wait"},
                                               std::chrono::milliseconds(300));
  EXPECT_EQ(late.error().code, ErrorCode::kTimeout);
  EXPECT_EQ(output_of("echo yes; sleep 1000 &").value(), "yes\n");
}

// As one that waits for SIGUSR1, which it holds, sees that it has come; dash lets go of what it
// holds when it starts a program.
constexpr const char* kWaits =
    "echo first; while :; do while read -r name signals; do case $name$signals in "
    "ShdPnd:*2[0-9a-f][0-9a-f]) echo rest; exit $1;; esac; done < /proc/$$/status; done";

TEST(SystemMachine, AProgramThatWaitsGoesOnIfItIsToAndIsKilledIfNot) {
  const auto output_if = [](std::optional<bool> more, const char* code) {
    return system_machine().output_in_two({"/bin/sh", "-c", kWaits, "sh", code},
                                          std::chrono::seconds(60),
                                          [more](const std::string& line) {
                                            EXPECT_EQ(line, "first\n");
                                            return more;
                                          });
  };
  EXPECT_EQ(output_if(true, "0").value(), "rest\n");
  EXPECT_EQ(output_if(true, "2").error(), fail(ErrorCode::kInvalid, "rest"));
  EXPECT_EQ(output_if(false, "0").value(), "first\n");
  EXPECT_EQ(output_if(std::nullopt, "0").value(), "first\nrest\n") << "another line";
}

TEST(SystemMachine, AProgramThatEndsInsteadOfWaitingIsHeardToItsEnd) {
  const auto none = [](const std::string&) { return std::optional<bool>(); };
  const auto said = [&](const char* script) {
    return system_machine().output_in_two({"/bin/sh", "-c", script}, std::chrono::seconds(60),
                                          none);
  };
  EXPECT_EQ(said("echo two; echo lines; exit 2").error(), fail(ErrorCode::kInvalid, "two\nlines"));
  EXPECT_EQ(said("printf none").value(), "none");
}

TEST(SystemMachine, WhatCannotBeStartedIsNamed) {
  const auto none = system_machine().output_of({"/etc/passwd"}, std::chrono::seconds(60));
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("/etc/passwd: Permission denied"), std::string::npos)
      << none.error().message;
}

// A port that somebody listens at, by one address of this host.
class ListenedPort {
 public:
  explicit ListenedPort(int family) : socket_(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in narrow{};
    narrow.sin_family = AF_INET;
    narrow.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_in6 wide{};
    wide.sin6_family = AF_INET6;
    wide.sin6_addr = in6addr_loopback;
    auto* address = family == AF_INET ? reinterpret_cast<sockaddr*>(&narrow)
                                      : reinterpret_cast<sockaddr*>(&wide);
    socklen_t size = family == AF_INET ? sizeof narrow : sizeof wide;
    if (::bind(socket_.get(), address, size) != 0 || ::listen(socket_.get(), 1) != 0) return;
    ::getsockname(socket_.get(), address, &size);
    number_ = ntohs(family == AF_INET ? narrow.sin_port : wide.sin6_port);
  }
  std::uint16_t number() const { return number_; }  // 0: this host has no such address

 private:
  UniqueFd socket_;
  std::uint16_t number_ = 0;
};

TEST(SystemMachine, SeesAPortThatOneInterfaceHasTaken) {
  EXPECT_TRUE(system_machine().bind_everywhere(0)) << "any port";
  for (const int family : {AF_INET, AF_INET6}) {
    const ListenedPort taken(family);
    if (taken.number() == 0) continue;
    const Status tried = system_machine().bind_everywhere(taken.number());
    ASSERT_FALSE(tried);
    EXPECT_NE(tried.error().message.find("in use"), std::string::npos) << tried.error().message;
  }
}

TEST(SystemMachine, NamesNoAddressThatOnlyThisHostReaches) {
  for (const auto& [text, interface] : system_machine().addresses()) {
    EXPECT_FALSE(text.starts_with("127.") || text == "::1" || text.starts_with("fe80:")) << text;
    EXPECT_FALSE(interface.empty()) << text;
  }
}

}  // namespace
}  // namespace muster::cli
