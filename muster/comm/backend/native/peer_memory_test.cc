#include "muster/comm/backend/native/peer_memory.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "muster/comm/backend/native/shared_memory.h"

namespace muster::comm {
namespace {

constexpr std::uint64_t kHere = 11;
constexpr std::uint64_t kThere = 22;

// A process with other values than this one has at the same addresses.
class OtherProcess {
 public:
  OtherProcess(std::uint64_t& token, std::vector<int>& values) {
    std::array<int, 2> ready{};
    EXPECT_EQ(::pipe(ready.data()), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::alarm(600);  // should nobody be left who ends it
      token = kThere;
      std::iota(values.begin(), values.end(), 1000);
      if (::write(ready[1], "x", 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    ::close(ready[1]);
    char sign = 0;
    EXPECT_EQ(::read(ready[0], &sign, 1), 1);
    ::close(ready[0]);
  }
  ~OtherProcess() {
    kill();
    reap();
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  int pid() const noexcept { return pid_; }
  void kill() const {
    if (!reaped_) ::kill(pid_, SIGKILL);
  }
  void await_end() const {
    siginfo_t about{};
    ::waitid(P_PID, static_cast<id_t>(pid_), &about, WEXITED | WNOWAIT);
  }
  void reap() {
    if (!reaped_) ::waitpid(pid_, nullptr, 0);
    reaped_ = true;
  }

 private:
  pid_t pid_ = -1;
  bool reaped_ = false;
};

class PeerMemoryTest : public ::testing::Test {
 protected:
  PeerMemory memory(std::uint64_t token = kThere) const {
    return {other_.pid(), reinterpret_cast<const std::byte*>(&token_), token};
  }
  // Of the values, beginning with number `first`.
  const std::byte* at(std::size_t first) const {
    return std::as_bytes(std::span(values_)).data() + first * sizeof(int);
  }

  std::uint64_t token_ = kHere;
  std::vector<int> values_ = std::vector<int>(100'000, -1);
  OtherProcess other_{token_, values_};
};

TEST_F(PeerMemoryTest, ReadsWhatLiesInAnotherProcess) {
  EXPECT_TRUE(memory().reach());
  std::vector<int> got(values_.size() - 7);
  const Status read = memory().read(at(7), std::as_writable_bytes(std::span(got)));
  ASSERT_TRUE(read) << read.error().message;
  std::vector<int> expected(got.size());
  std::iota(expected.begin(), expected.end(), 1007);
  EXPECT_EQ(got, expected);
  EXPECT_EQ(token_, kHere) << "it is another process indeed";
}

TEST_F(PeerMemoryTest, MissesWhoHasEnded) {
  other_.kill();
  other_.await_end();
  std::array<std::byte, 4> got{};
  for (const bool reaped : {false, true}) {
    if (reaped) other_.reap();
    const Status read = memory().read(at(0), got);
    ASSERT_FALSE(read) << reaped;
    EXPECT_EQ(read.error().code, ErrorCode::kNotFound) << read.error().message;
  }
}

// Its number may have gone to another process, or it to another program.
TEST_F(PeerMemoryTest, TakesNoOtherProcessForIt) {
  const Status reached = memory(kHere).reach();
  ASSERT_FALSE(reached);
  EXPECT_EQ(reached.error().code, ErrorCode::kNotFound) << reached.error().message;
}

TEST_F(PeerMemoryTest, SaysWhereNothingLies) {
  std::array<std::byte, 4> got{};
  const Status read = memory().read(nullptr, got);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(read.error().message.find("Bad address"), std::string::npos) << read.error().message;
}

// Two pages, of which the second one cannot be read, as a driver's memory.
TEST(PeerMemory, KnowsWhatItCannotRead) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const start =
      ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(start, MAP_FAILED);
  const std::span both(static_cast<std::byte*>(start), 2 * page);
  ASSERT_EQ(::mprotect(both.data() + page, page, PROT_NONE), 0);
  const std::uint64_t token = kHere;
  const PeerMemory own(own_pid(), reinterpret_cast<const std::byte*>(&token), kHere);
  EXPECT_TRUE(own.can_read(both.first(page)));
  EXPECT_FALSE(own.can_read(both.first(page + 1)));
  EXPECT_FALSE(own.can_read(both.subspan(page)));
  EXPECT_TRUE(own.can_read({}));
  std::vector<std::byte> got(2 * page);
  EXPECT_FALSE(own.read(both.data(), got)) << "half of it is no whole";
  ::munmap(start, 2 * page);
}

}  // namespace
}  // namespace muster::comm
