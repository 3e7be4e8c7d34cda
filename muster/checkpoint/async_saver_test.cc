#include "muster/checkpoint/async_saver.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <new>
#include <system_error>
#include <thread>

#include "muster/checkpoint/sample_state.h"
#include "muster/checkpoint/snapshot.h"
#include "muster/testing/faulty_files.h"
#include "muster/testing/memory_files.h"

namespace muster::checkpoint {
namespace {

using namespace std::chrono_literals;

// A clock that stands still while the gate is shut holds up the save at its very start: the
// checkpointer asks it for the time before it writes.
class GatedClock final : public Clock {
 public:
  TimePoint now() const noexcept override {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [this] { return open_; });
    return system_clock().now();
  }
  WallTime wall() const noexcept override { return system_clock().wall(); }
  bool wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& condition,
                  TimePoint until) override {
    return system_clock().wait_until(lock, condition, until);
  }
  void set(bool open) {
    const std::lock_guard lock(mutex_);
    open_ = open;
    opened_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable opened_;
  bool open_ = true;
};

class AsyncSaverTest : public ::testing::Test {
 protected:
  AsyncSaverTest() { EXPECT_TRUE(disk_.create_folders("/run")); }
  static Deadline in(Duration duration) { return Deadline::after(system_clock(), duration); }

  testing::MemoryFiles disk_;
  testing::FaultyFiles faulty_{disk_};
  GatedClock gate_;
  std::shared_ptr<Checkpointer> checkpointer_ = std::make_shared<Checkpointer>(
      faulty_, gate_, "/run/checkpoints", CheckpointOptions{.job = "sample"});
  AsyncSaver saver_{checkpointer_, system_clock()};
};

TEST_F(AsyncSaverTest, SavesTheStateOfItsStart) {
  SampleState state(1);
  ASSERT_TRUE(saver_.start(state.request(1), in(60s)));
  EXPECT_GE(saver_.wait_until_copied(), Duration::zero());
  state.model()[0].tensor.as<float>()[0] = 999;  // the next update
  const auto saved = saver_.finish(in(60s));
  ASSERT_TRUE(saved && *saved);
  EXPECT_EQ((*saved)->step, Step{1});
  SampleState loaded(0);
  ASSERT_TRUE(checkpointer_->load(Step{1}, loaded.target()));
  EXPECT_EQ(loaded, SampleState(1));
}

TEST_F(AsyncSaverTest, ReportsEachSaveOnce) {
  EXPECT_FALSE(saver_.poll());
  SampleState state(1);
  ASSERT_TRUE(saver_.start(state.request(1), in(60s)));
  std::optional<Result<SavedCheckpoint>> outcome;
  while (!(outcome = saver_.poll())) std::this_thread::yield();
  EXPECT_TRUE(outcome->has_value());
  EXPECT_FALSE(saver_.busy());
  EXPECT_FALSE(saver_.poll());
  EXPECT_EQ(saver_.finish(in(60s)).value(), std::nullopt);
}

TEST_F(AsyncSaverTest, HasOneSaveInFlight) {
  SampleState first(1), second(2);
  gate_.set(false);
  ASSERT_TRUE(saver_.start(first.request(1), in(60s)));
  saver_.wait_until_copied();
  EXPECT_TRUE(saver_.busy());
  EXPECT_EQ(saver_.start(second.request(2), in(10ms)).error().code, ErrorCode::kTimeout);
  EXPECT_EQ(saver_.finish(in(10ms)).error().code, ErrorCode::kTimeout);
  gate_.set(true);
  ASSERT_TRUE(saver_.start(second.request(2), in(60s)));
  ASSERT_TRUE(saver_.finish(in(60s)));
  EXPECT_EQ(checkpointer_->complete_steps().value(), (std::vector<Step>{Step{1}, Step{2}}));
}

TEST_F(AsyncSaverTest, TellsAnErrorAtTheNextCall) {
  SampleState state(1);
  faulty_.fail_at(5, testing::Fault::kNoSpace);
  ASSERT_TRUE(saver_.start(state.request(1), in(60s)));
  saver_.wait_until_copied();
  const Status next = saver_.start(state.request(2), in(60s));
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(saver_.busy());
  ASSERT_TRUE(saver_.start(state.request(2), in(60s)));
  EXPECT_TRUE(saver_.finish(in(60s)));
}

TEST_F(AsyncSaverTest, TellsAnErrorAtTheEnd) {
  SampleState state(1);
  faulty_.fail_at(5, testing::Fault::kIoError);
  ASSERT_TRUE(saver_.start(state.request(1), in(60s)));
  EXPECT_FALSE(saver_.finish(in(60s)));
}

TEST_F(AsyncSaverTest, TellsThatMemoryHasRunOut) {
  SampleState state(1);
  faulty_.fail_at(5, testing::Fault::kNoMemory);
  ASSERT_TRUE(saver_.start(state.request(1), in(60s)));
  const auto saved = saver_.finish(in(60s));
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(saved.error().message.find("out of memory"), std::string::npos);
  ASSERT_TRUE(saver_.start(state.request(2), in(60s)));
  EXPECT_TRUE(saver_.finish(in(60s))) << "the next one finds memory again";
}

TEST_F(AsyncSaverTest, TellsThatThereIsNoThread) {
  const auto without_thread = [] {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  };
  const auto without_memory = [] { throw std::bad_alloc(); };
  const std::pair<std::function<void()>, std::string> faults[] = {
      {without_thread, "cannot start the thread"}, {without_memory, "out of memory"}};
  for (const auto& [fault, told] : faults) {
    bool fails = true;
    AsyncSaver saver(checkpointer_, system_clock(), [&](std::function<void()> work) {
      if (fails) fault();
      return std::thread(std::move(work));
    });
    SampleState state(1);
    const Status begun = saver.start(state.request(1), in(60s));
    ASSERT_FALSE(begun);
    EXPECT_EQ(begun.error().code, ErrorCode::kUnavailable);
    EXPECT_NE(begun.error().message.find(told), std::string::npos) << begun.error().message;
    EXPECT_FALSE(saver.busy());
    EXPECT_EQ(saver.wait_until_copied(), Duration::zero());
    EXPECT_EQ(saver.finish(in(60s)).value(), std::nullopt);
    fails = false;
    ASSERT_TRUE(saver.start(state.request(1), in(60s)));
    EXPECT_TRUE(saver.finish(in(60s)).value().has_value());
  }
}

// As on a disk that hangs: who gives up goes on at once, and whatever comes of it later harms
// nobody.
TEST_F(AsyncSaverTest, IsAbandonedWhereItMayNeverEnd) {
  SampleState state(1);
  gate_.set(false);
  {
    AsyncSaver saver(checkpointer_, system_clock());
    ASSERT_TRUE(saver.start(state.request(1), in(60s)));
    saver.wait_until_copied();
    EXPECT_EQ(saver.finish(in(0s)).error().code, ErrorCode::kTimeout);
    saver.abandon();
  }
  gate_.set(true);
  while (checkpointer_.use_count() > 2) std::this_thread::yield();  // the fixture's and its saver's
  EXPECT_TRUE(checkpointer_->complete_steps());
}

TEST_F(AsyncSaverTest, LooksForWhatAnotherHasSaved) {
  ASSERT_TRUE(checkpointer_->save(SampleState(1).request(1)));
  EXPECT_FALSE(saver_.found());
  for (const auto& [step, there] : {std::pair(Step{1}, true), std::pair(Step{2}, false)}) {
    ASSERT_TRUE(saver_.look_for(step));
    EXPECT_EQ(saver_.finish(in(60s)).value(), std::nullopt);
    EXPECT_EQ(saver_.found(), there);
  }
  SampleState state(3);
  ASSERT_TRUE(saver_.start(state.request(3), in(60s)));
  EXPECT_TRUE(saver_.finish(in(60s)).value().has_value());
}

TEST_F(AsyncSaverTest, RefusesWhatCannotBeCopied) {
  SampleState state(1);
  SaveRequest request = state.request(1);
  request.model[0].tensor.device = Device::kCuda;
  EXPECT_EQ(saver_.start(request, in(60s)).error().code, ErrorCode::kInvalid);
}

TEST(Snapshot, IsCopiedByManyThreads) {
  std::vector<float> first(1'000'003), second(5), none;
  for (std::size_t i = 0; i < first.size(); ++i) first[i] = static_cast<float>(i);
  second = {1, 2, 3, 4, 5};
  SnapshotMemory memory;
  for (int round = 0; round < 3; ++round) {
    std::vector<NamedTensor> tensors{{"first", view_of(std::span(first))},
                                     {"none", view_of(std::span(none))},
                                     {"second", view_of(std::span(second))}};
    SnapshotCopy copy(memory, {&tensors});
    std::thread helpers[] = {std::thread([&] { copy.finish(); }),
                             std::thread([&] { copy.finish(); })};
    copy.finish();
    EXPECT_NE(tensors[0].tensor.bytes.data(), std::as_bytes(std::span(first)).data());
    EXPECT_TRUE(std::ranges::equal(tensors[0].tensor.as<float>(), first));
    EXPECT_TRUE(std::ranges::equal(tensors[2].tensor.as<float>(), second));
    for (std::thread& helper : helpers) helper.join();
  }
}

}  // namespace
}  // namespace muster::checkpoint
