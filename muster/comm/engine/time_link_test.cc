#include "muster/comm/engine/time_link.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "muster/comm/backend/loopback/loopback.h"
#include "muster/testing/fake_clock.h"
#include "muster/testing/soon.h"

namespace muster::comm {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

// A link that takes its time on a clock that only it moves.
class PacedLine final : public TimedLine {
 public:
  PacedLine(muster::testing::FakeClock& clock, Duration latency, Duration per_message,
            double nanoseconds_per_byte)
      : clock_(clock),
        latency_(latency),
        per_message_(per_message),
        nanoseconds_per_byte_(nanoseconds_per_byte) {}

  Rank peer() const noexcept override { return Rank{1}; }
  const Group& group() const noexcept override { return group_; }
  Status send(std::span<std::byte> bytes) override {
    if (dead_) return fail(ErrorCode::kPeerLost, "[comm/tcp] rank 1 has gone", Rank{1});
    const double body = nanoseconds_per_byte_ * static_cast<double>(bytes.size());
    clock_.advance(per_message_ + nanoseconds(static_cast<std::int64_t>(body)));
    ++sent_;
    return ok();
  }
  Status settle() override { return ok(); }
  // The last message on its way, the answer's three ends, and its way.
  Status take(std::span<std::byte>) override {
    clock_.advance(2 * latency_ + 3 * per_message_);
    return ok();
  }
  Status go_on() const override { return ok(); }

  bool dead_ = false;
  int sent_ = 0;

 private:
  const Group group_{Rank{0}, 2, Generation{1}};
  muster::testing::FakeClock& clock_;
  const Duration latency_;
  const Duration per_message_;
  const double nanoseconds_per_byte_;
};

TEST(TimeLink, FindsWhatTheLinkTakes) {
  muster::testing::FakeClock clock;
  PacedLine fast(clock, microseconds(50), microseconds(2), 1);
  const MeasuredLink found = time_link(fast, clock, 0).value();
  EXPECT_NEAR(found.costs.latency, 50e-6, 0.5e-6);
  EXPECT_NEAR(found.per_message, 2e-6, 0.1e-6);
  EXPECT_NEAR(found.costs.per_byte, 1e-9, 0.05e-9);

  PacedLine slow(clock, std::chrono::milliseconds(20), microseconds(10), 100);
  const MeasuredLink far = time_link(slow, clock, 0).value();
  EXPECT_NEAR(far.costs.latency, 20e-3, 0.5e-3);
  EXPECT_NEAR(far.costs.per_byte, 100e-9, 5e-9);
  EXPECT_LT(slow.sent_, fast.sent_) << "what takes long is timed less often";
}

TEST(TimeLink, NoLinkIsFasterThanMemory) {
  muster::testing::FakeClock clock;
  PacedLine line(clock, microseconds(1), microseconds(1), 0);
  EXPECT_EQ(time_link(line, clock, 2e-10).value().costs.per_byte, 2e-10);
}

TEST(TimeLink, WhoHasGoneIsNamed) {
  muster::testing::FakeClock clock;
  PacedLine line(clock, microseconds(1), microseconds(1), 1);
  line.dead_ = true;
  const auto found = time_link(line, clock, 0);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().peer, Rank{1});
}

TEST(TimeLink, TwoRanksOfACommunicatorDoItByMessages) {
  const auto ranks = create_loopback(2);
  Status answered = fail(ErrorCode::kInternal, "not run");
  std::thread other([&] {
    answered = answer_messages(*ranks[1], Rank{0}, system_clock(), muster::testing::kHang);
  });
  const auto found =
      time_messages(*ranks[0], Rank{1}, system_clock(), muster::testing::kHang, 1e-12);
  other.join();
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_TRUE(answered) << answered.error().message;
  EXPECT_GT(found->costs.latency, 0);
  EXPECT_GE(found->costs.per_byte, 1e-12);
  EXPECT_GT(found->per_message, 0);
}

TEST(TimeLink, OneThatNeverComesIsGivenUp) {
  const auto ranks = create_loopback(2);
  const auto found =
      time_messages(*ranks[0], Rank{1}, system_clock(), std::chrono::milliseconds(20), 0);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kTimeout) << found.error().message;
}

}  // namespace
}  // namespace muster::comm
