#include "muster/observe/hub.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "muster/observe/queued_sink.h"

namespace muster::observe {
namespace {

using ::testing::HasSubstr;

class Recorder final : public Sink {
 public:
  void take(const Record& record) noexcept override {
    while (held) std::this_thread::yield();
    const std::lock_guard lock(mutex_);
    records_.push_back(record);
  }
  std::vector<Record> records() const {
    const std::lock_guard lock(mutex_);
    return records_;
  }
  std::atomic<bool> held{false};

 private:
  mutable std::mutex mutex_;
  std::vector<Record> records_;
};

Record numbered(int number) { return Notice{Severity::kNote, std::to_string(number)}; }

Record metrics_row(int step) {
  Metrics row;
  row.step = Step{step};
  return row;
}

TEST(Hub, TellsEverySinkInOrder) {
  Hub hub;
  const auto one = std::make_shared<Recorder>();
  const auto two = std::make_shared<Recorder>();
  const auto first = hub.subscribe(one);
  hub.publish(numbered(1));
  const auto second = hub.subscribe(two);
  hub.publish(numbered(2));
  EXPECT_EQ(one->records(), (std::vector{numbered(1), numbered(2)}));
  EXPECT_EQ(two->records(), (std::vector{numbered(2)}));
}

TEST(Hub, ASubscriptionEndsWithItsOwner) {
  Hub hub;
  const auto sink = std::make_shared<Recorder>();
  {
    auto subscription = hub.subscribe(sink);
    const auto moved = std::move(subscription);
    hub.publish(numbered(1));
  }
  hub.publish(numbered(2));
  EXPECT_EQ(sink->records().size(), 1u);
  EXPECT_EQ(sink.use_count(), 1);
}

TEST(Hub, ASubscriptionMayOutliveIt) {
  std::optional<Hub> hub(std::in_place);
  auto subscription = hub->subscribe(std::make_shared<Recorder>());
  hub.reset();
  subscription.end();
}

TEST(Hub, TakesRecordsFromManyThreads) {
  Hub hub;
  const auto sink = std::make_shared<Recorder>();
  const auto subscription = hub.subscribe(sink);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&hub] {
      for (int i = 0; i < 250; ++i) hub.publish(numbered(i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sink->records().size(), 1000u);
}

TEST(QueuedSink, HandsOverEverythingInOrderBeforeItEnds) {
  const auto behind = std::make_shared<Recorder>();
  auto sink = create_queued_sink(behind, system_clock());
  std::vector<Record> expected;
  for (int i = 0; i < 1000; ++i) {
    expected.push_back(numbered(i));
    sink->take(expected.back());
  }
  sink.reset();
  EXPECT_EQ(behind->records(), expected);
}

TEST(QueuedSink, DropsNumbersButNotTurnsWhenTheSinkStandsStill) {
  const auto behind = std::make_shared<Recorder>();
  behind->held = true;
  auto sink = create_queued_sink(behind, system_clock(),
                                 {.capacity = 10, .drain_timeout = std::chrono::minutes(1)});
  for (int i = 0; i < 100; ++i) sink->take(metrics_row(i));  // never blocks
  sink->take(numbered(7));
  behind->held = false;
  sink.reset();
  const std::vector<Record> records = behind->records();
  EXPECT_LE(records.size(), 25u);  // what fits, and what the thread had taken already
  EXPECT_THAT(records, ::testing::Contains(numbered(7)));
  const bool told = std::ranges::any_of(records, [](const Record& record) {
    const auto* notice = std::get_if<Notice>(&record);
    return notice != nullptr && notice->text.find("left out") != std::string::npos;
  });
  EXPECT_TRUE(told);
}

TEST(QueuedSink, DoesNotWaitForASinkThatHangs) {
  const auto behind = std::make_shared<Recorder>();
  behind->held = true;
  auto sink =
      create_queued_sink(behind, system_clock(), {.drain_timeout = std::chrono::milliseconds(10)});
  sink->take(numbered(1));
  sink.reset();
  behind->held = false;
  while (behind->records().empty()) std::this_thread::yield();  // the thread ends on its own
}

}  // namespace
}  // namespace muster::observe
