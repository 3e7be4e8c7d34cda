#include "muster/net/loop.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <future>

#include "muster/base/check.h"
#include "muster/net/testing/recorder.h"

namespace muster::net {
namespace {

using std::chrono::milliseconds;
using testing::soon;

TEST(Loop, RunsTasksInOrderOnItsThread) {
  const auto loop = create_loop("test", create_null_logger());
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) loop->post([&, i] { order.push_back(i); });
  bool on_thread = false;
  ASSERT_TRUE(run_and_wait(
      *loop, [&] { on_thread = loop->on_loop_thread(); }, soon()));
  EXPECT_TRUE(on_thread);
  EXPECT_FALSE(loop->on_loop_thread());
  ASSERT_EQ(order.size(), 100u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(Loop, SurvivesATaskThatThrows) {
  const auto loop = create_loop("test", create_null_logger());
  loop->post([] { throw std::runtime_error("as planned"); });
  bool ran = false;
  ASSERT_TRUE(run_and_wait(
      *loop, [&] { ran = true; }, soon()));
  EXPECT_TRUE(ran);
}

TEST(Loop, TimersFireUnlessDropped) {
  const auto loop = create_loop("test", create_null_logger());
  std::promise<void> fired;
  bool dropped_fired = false;
  const auto now = system_clock().now();
  Registration kept;
  // In one task, so that neither fires before both are as they are to be.
  run_and_wait(
      *loop,
      [&] {
        auto dropped = loop->call_at(now + milliseconds(10), [&] { dropped_fired = true; });
        dropped = nullptr;
        kept = loop->call_at(now + milliseconds(30), [&] { fired.set_value(); });
      },
      soon());
  ASSERT_EQ(fired.get_future().wait_until(soon().at()), std::future_status::ready);
  EXPECT_GE(system_clock().now(), now + milliseconds(30));
  EXPECT_FALSE(dropped_fired);
}

TEST(Loop, WatchesADescriptorUntilItsEnd) {
  const auto loop = create_loop("test", create_null_logger());
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::string received;
  std::promise<void> ended;
  Registration watch;
  run_and_wait(
      *loop,
      [&] {
        watch = loop->watch(ends[0], [&] {
          const auto bytes = read_available(ends[0]);
          if (bytes)
            received += *bytes;
          else {
            watch = nullptr;
            ended.set_value();
          }
        });
      },
      soon());
  for (const char* text : {"one ", "two ", "three"}) {
    ASSERT_GT(::write(ends[1], text, std::string_view(text).size()), 0);
  }
  ::close(ends[1]);
  ASSERT_EQ(ended.get_future().wait_until(soon().at()), std::future_status::ready);
  EXPECT_EQ(received, "one two three");
  ::close(ends[0]);
}

TEST(Loop, PassesSignalsOn) {
  const auto loop = create_loop("test", create_null_logger());
  std::promise<int> arrived;
  const auto watch = loop->on_signals({SIGUSR2}, [&](int number) { arrived.set_value(number); });
  // There: what kill() sends waits on the main thread, which ThreadSanitizer may let sleep over it.
  loop->post([] { std::raise(SIGUSR2); });
  auto number = arrived.get_future();
  ASSERT_EQ(number.wait_until(soon().at()), std::future_status::ready);
  EXPECT_EQ(number.get(), SIGUSR2);
}

TEST(Loop, StopDropsWhatWaits) {
  const auto loop = create_loop("test", create_null_logger());
  const auto kept = std::make_shared<int>(1);
  const auto timer =
      loop->call_at(system_clock().now() + std::chrono::hours(1), [kept] { FAIL(); });
  loop->stop();
  loop->stop();
  EXPECT_FALSE(run_and_wait(
      *loop, [] {}, Deadline::after(system_clock(), milliseconds(50))));
}

}  // namespace
}  // namespace muster::net
