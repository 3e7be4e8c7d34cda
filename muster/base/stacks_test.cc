#include "muster/base/stacks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <csignal>
#include <future>
#include <mutex>
#include <thread>

namespace muster {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// The thread sanitizer keeps signals back until a thread calls something that it watches.
#if defined(MUSTER_SANITIZED_THREAD)
constexpr bool kAnswered = false;
constexpr Duration kPatience = std::chrono::milliseconds(50);
#else
constexpr bool kAnswered = true;
constexpr Duration kPatience = std::chrono::seconds(20);
#endif

int count(const std::string& text, const std::string& what) {
  int found = 0;
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(Stacks, ShowWhereEachThreadStands) {
  std::mutex mutex;
  std::condition_variable changed;
  bool leave = false;
  int waiting = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      std::unique_lock lock(mutex);
      ++waiting;
      changed.notify_all();
      changed.wait(lock, [&] { return leave; });
    });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return waiting == 3; });
  }
  for (int round = 0; round < 3; ++round) {
    const std::string text = describe_stacks(kPatience);
    EXPECT_GE(count(text, "thread "), 4) << text;
    if (!kAnswered) continue;
    EXPECT_GE(count(text, "pthread_cond_wait"), 3) << text;
    EXPECT_THAT(text, HasSubstr("#0 "));
    EXPECT_EQ(count(text, "does not answer"), 0) << text;
  }
  {
    const std::lock_guard lock(mutex);
    leave = true;
    changed.notify_all();
  }
  for (std::thread& thread : threads) thread.join();
}

// As one that a debugger holds does.
TEST(Stacks, OfWhoDoesNotAnswerShowHowItStands) {
  std::promise<void> ready;
  std::promise<void> leave;
  std::thread deaf([&] {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
    ready.set_value();
    leave.get_future().wait();
  });
  ready.get_future().wait();
  const std::string text = describe_stacks(std::chrono::milliseconds(50));
  leave.set_value();
  deaf.join();
  EXPECT_THAT(text, ContainsRegex("  it does not answer: it is (asleep, in .*libc.*|running)\n"));
}

}  // namespace
}  // namespace muster
