// Members and coordinator of one process, over real sockets.
#include "muster/cluster/member.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <atomic>
#include <future>
#include <mutex>
#include <sstream>
#include <thread>

#include "muster/cluster/coordinator.h"
#include "muster/testing/soon.h"

namespace muster::cluster {
namespace {

using muster::testing::soon;

struct Host {
  explicit Host(const net::Credentials& credentials, Clock& clock = system_clock())
      : loop(net::create_loop("host", create_null_logger(), clock)),
        network(net::create_network(*loop, credentials, {}, create_null_logger()).value()) {}
  ~Host() { loop->stop(); }
  std::unique_ptr<net::SystemLoop> loop;
  std::unique_ptr<net::Network> network;
};

// That of a host that nobody has set for an hour.
class SlowClock final : public Clock {
 public:
  TimePoint now() const noexcept override { return system_clock().now(); }
  WallTime wall() const noexcept override { return system_clock().wall() - std::chrono::hours(1); }
  bool wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& condition,
                  TimePoint until) override {
    return system_clock().wait_until(lock, condition, until);
  }
};

class Members : public ::testing::Test {
 protected:
  void start(std::int32_t workers, CoordinatorEvents events = {},
             Logger log = create_null_logger()) {
    CoordinatorOptions options;
    options.policy.min_workers = options.policy.max_workers = workers;
    coordinator_ = create_coordinator(*host_.network, {"127.0.0.1", 0}, options, std::move(events),
                                      std::move(log))
                       .value();
  }
  Result<std::unique_ptr<Member>> join_as(Host& host, std::int32_t worker,
                                          Deadline deadline = soon(), std::string version = "") {
    MemberOptions options{coordinator_->address(), {worker, "host", "boot", 100 + worker, {}}};
    options.version = std::move(version);
    return join(*host.network, options, deadline, create_null_logger());
  }
  // All of a job at once, as join() waits for the others.
  std::vector<std::unique_ptr<Member>> join_all(Host& host, std::int32_t workers) {
    std::vector<std::future<Result<std::unique_ptr<Member>>>> joins;
    for (std::int32_t i = 0; i < workers; ++i)
      joins.push_back(std::async(std::launch::async, [&, i] { return join_as(host, i); }));
    std::vector<std::unique_ptr<Member>> members;
    for (auto& each : joins) members.push_back(each.get().value());
    return members;
  }

  net::Credentials credentials_ = net::create_credentials(system_clock().wall()).value();
  Host host_{credentials_};
  Host workers_{credentials_};
  std::unique_ptr<Coordinator> coordinator_;
};

TEST_F(Members, AgreeOnTheGeneration) {
  for (const std::int32_t size : {1, 2, 3, 5, 8}) {
    start(size);
    const auto members = join_all(workers_, size);
    for (std::int32_t i = 0; i < size; ++i) {
      const auto membership = members[static_cast<std::size_t>(i)]->membership();
      EXPECT_EQ(membership.generation, Generation{1});
      EXPECT_EQ(membership.rank, Rank{i});
      EXPECT_EQ(membership.members, members[0]->membership().members);
      EXPECT_EQ(membership.size(), size);
    }
  }
}

TEST_F(Members, AreToldToStopAlsoWhenTheyAskLater) {
  start(2);
  const auto members = join_all(workers_, 2);
  std::promise<StopReason> early;
  members[0]->on_stop([&](StopReason reason) { early.set_value(reason); });
  EXPECT_FALSE(members[0]->stop_requested());
  coordinator_->broadcast(Stop{StopReason::kCheckpointAndExit});
  auto told = early.get_future();
  ASSERT_EQ(told.wait_until(soon().at()), std::future_status::ready);
  EXPECT_EQ(members[0]->stop_requested(), StopReason::kCheckpointAndExit);
  std::promise<StopReason> late;
  members[0]->on_stop([&](StopReason reason) { late.set_value(reason); });
  EXPECT_EQ(late.get_future().get(), StopReason::kCheckpointAndExit);
}

TEST_F(Members, AreAskedWhereTheyAreAlsoWhenTheyListenLater) {
  start(1);
  const auto members = join_all(workers_, 1);
  coordinator_->broadcast(Dump{.stacks = true});
  coordinator_->broadcast(Stop{StopReason::kCheckpointAndExit});
  std::promise<void> after_it;
  members[0]->on_stop([&](StopReason) { after_it.set_value(); });
  ASSERT_EQ(after_it.get_future().wait_until(soon().at()), std::future_status::ready);
  std::promise<bool> asked;
  members[0]->on_dump([&](bool stacks) { asked.set_value(stacks); });
  auto told = asked.get_future();
  ASSERT_EQ(told.wait_until(soon().at()), std::future_status::ready);
  EXPECT_TRUE(told.get());
}

TEST_F(Members, NoticeTheCoordinatorsEnd) {
  start(1);
  const auto members = join_all(workers_, 1);
  std::promise<Error> lost;
  members[0]->on_lost([&](const Error& why) { lost.set_value(why); });
  std::thread waits([&] {
    const auto value = members[0]->store(Generation{1})->get("never", soon());
    EXPECT_EQ(value.error().code, ErrorCode::kPeerLost);
  });
  coordinator_.reset();
  auto why = lost.get_future();
  ASSERT_EQ(why.wait_until(soon().at()), std::future_status::ready);
  EXPECT_EQ(why.get().code, ErrorCode::kPeerLost);
  waits.join();
}

TEST_F(Members, WaitForTheOthersOnlyUntilTheDeadline) {
  start(2);
  const auto alone = join_as(workers_, 0, Deadline::after(system_clock(), std::chrono::seconds(2)));
  ASSERT_FALSE(alone);
  EXPECT_EQ(alone.error().code, ErrorCode::kTimeout);
}

TEST_F(Members, OfTheSameNumberAreRefusedWithTheReason) {
  std::promise<void> joined;
  CoordinatorEvents events;
  events.on_join = [&, first = true](const WorkerInfo&) mutable {
    if (std::exchange(first, false)) joined.set_value();
  };
  start(2, std::move(events));
  auto first = std::async(std::launch::async, [&] { return join_as(workers_, 0); });
  ASSERT_EQ(joined.get_future().wait_until(soon().at()), std::future_status::ready);
  for (const std::int32_t wrong : {0, 2, -1}) {
    const auto refused = join_as(workers_, wrong);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalid);
  }
  EXPECT_TRUE(join_as(workers_, 1));
  EXPECT_TRUE(first.get());
}

// As rank 0 tells all others.
TEST_F(Members, OfTwoVersionsAreBothToldBeforeTheyBegin) {
  std::promise<void> joined;
  CoordinatorEvents events;
  events.on_join = [&](const WorkerInfo&) { joined.set_value(); };
  events.on_other_version = [this](const Error& why) { coordinator_->broadcast(Failure{why, {}}); };
  start(2, std::move(events));
  auto first =
      std::async(std::launch::async, [&] { return join_as(workers_, 0, soon(), "muster 1"); });
  ASSERT_EQ(joined.get_future().wait_until(soon().at()), std::future_status::ready);
  const auto second = join_as(workers_, 1, soon(), "muster 2");
  const auto one = first.get();
  for (const auto* end : {&one, &second}) {
    ASSERT_FALSE(*end);
    EXPECT_EQ(end->error().code, ErrorCode::kInvalid);
    EXPECT_NE(end->error().message.find("worker 1 on host (pid 101) is of muster 2, worker 0 on "
                                        "host (pid 100) is of muster 1"),
              std::string::npos)
        << end->error().message;
  }
}

TEST_F(Members, WithAnotherClockAreNamedOnceAHostBeforeTheyBegin) {
  std::ostringstream told;
  start(2, {},
        std::make_shared<spdlog::logger>("told",
                                         std::make_shared<spdlog::sinks::ostream_sink_mt>(told)));
  SlowClock slow;
  Host there(credentials_, slow);
  { const auto members = join_all(there, 2); }
  coordinator_.reset();
  const std::string lines = told.str();
  const auto first = lines.find("the clock of host is 1 h");
  EXPECT_NE(first, std::string::npos) << lines;
  EXPECT_NE(lines.find("behind this host's"), std::string::npos) << lines;
  EXPECT_EQ(lines.find("the clock of", first + 1), std::string::npos) << lines;
}

TEST_F(Members, WithTheSameClockAreNotWarnedOf) {
  std::ostringstream told;
  start(2, {},
        std::make_shared<spdlog::logger>("told",
                                         std::make_shared<spdlog::sinks::ostream_sink_mt>(told)));
  { const auto members = join_all(workers_, 2); }
  coordinator_.reset();
  EXPECT_EQ(told.str().find("the clock of"), std::string::npos) << told.str();
}

// Connections to some addresses do not come about.
class CutNetwork final : public net::Network {
 public:
  explicit CutNetwork(net::Network& inner) : inner_(inner) {}
  void connect(net::Address address, Deadline deadline, net::Connected done, Retry retry) override {
    {
      const std::lock_guard lock(mutex_);
      if (is_cut_ && is_cut_(address))
        return inner_.loop().post(
            [done = std::move(done)] { done(fail(ErrorCode::kTimeout, "the link is cut")); });
    }
    inner_.connect(std::move(address), deadline, std::move(done), retry);
  }
  Result<std::unique_ptr<net::Listener>> listen(const net::Address& address,
                                                net::Accepted accepted) override {
    return inner_.listen(address, std::move(accepted));
  }
  const std::string& name() const noexcept override { return inner_.name(); }
  const net::Counters& counters() const noexcept override { return inner_.counters(); }
  net::Loop& loop() const noexcept override { return inner_.loop(); }

  void cut(std::function<bool(const net::Address&)> to) {
    const std::lock_guard lock(mutex_);
    is_cut_ = std::move(to);
  }

 private:
  net::Network& inner_;
  std::mutex mutex_;
  std::function<bool(const net::Address&)> is_cut_;  // guarded by mutex_
};

// From the newcomer to a member, and the other way round.
TEST_F(Members, LetANewcomerInOnceAllReachEachOther) {
  for (const bool outwards : {true, false}) {
    std::promise<std::string> unreached;
    std::atomic<int> generations{0};
    CoordinatorEvents events;
    events.on_unreached = [&](const WorkerInfo& newcomer, const WorkerInfo& other,
                              const std::string& why) {
      unreached.set_value(std::to_string(newcomer.worker) + " and " + std::to_string(other.worker) +
                          ": " + why);
    };
    events.on_generation = [&](const Welcome&) { ++generations; };
    CoordinatorOptions options;
    options.policy.start_workers = 2;
    options.policy.max_workers = 3;
    coordinator_ = create_coordinator(*host_.network, {"127.0.0.1", 0}, options, std::move(events),
                                      create_null_logger())
                       .value();
    CutNetwork of_one(*workers_.network);
    CutNetwork of_newcomer(*workers_.network);
    const auto come = [&](net::Network& network, std::int32_t worker) {
      const std::string number = std::to_string(worker);
      MemberOptions member{coordinator_->address(), {worker, "h" + number, "b" + number, 1, {}}};
      member.host = "127.0.0.1";
      return join(network, member, soon(), create_null_logger()).value();
    };
    auto first = std::async(std::launch::async, [&] { return come(*workers_.network, 0); });
    const auto one = come(of_one, 1);
    const auto zero = first.get();
    const std::string door = one->membership().members[1].info.door;
    if (outwards)
      of_newcomer.cut([door](const net::Address& to) { return to_string(to) == door; });
    else
      of_one.cut([](const net::Address&) { return true; });
    auto newcomer = std::async(std::launch::async, [&] { return come(of_newcomer, 2); });
    auto told = unreached.get_future();
    ASSERT_EQ(told.wait_until(soon().at()), std::future_status::ready);
    const std::string what = told.get();
    EXPECT_NE(what.find("2 and 1: "), std::string::npos) << what;
    EXPECT_NE(what.find("the link is cut"), std::string::npos) << what;
    EXPECT_EQ(what.find("it cannot reach this worker") == std::string::npos, outwards) << what;
    EXPECT_EQ(generations, 1) << "nobody was disturbed";
    of_newcomer.cut(nullptr);
    of_one.cut(nullptr);
    const auto two = newcomer.get();  // stays until the others have seen it
    EXPECT_EQ(two->membership().size(), 3);
    EXPECT_EQ(zero->wait_newer(Generation{1}, soon())->size(), 3);
    coordinator_.reset();  // before what its events refer to
  }
}

TEST_F(Members, AreReportedWhenTheyAreLost) {
  std::promise<std::pair<std::int32_t, Error>> lost;
  CoordinatorEvents events;
  events.on_lost = [&](std::int32_t worker, const Error& why) { lost.set_value({worker, why}); };
  start(2, std::move(events));
  auto members = join_all(workers_, 2);
  members[1].reset();
  auto told = lost.get_future();
  ASSERT_EQ(told.wait_until(soon().at()), std::future_status::ready);
  const auto [worker, why] = told.get();
  EXPECT_EQ(worker, 1);
  EXPECT_EQ(why.code, ErrorCode::kPeerLost);
  EXPECT_EQ(why.peer, Rank{1});
  coordinator_.reset();  // before what its events refer to
}

TEST_F(Members, WhoLeavesIsNotLost) {
  std::promise<std::pair<std::int32_t, int>> left;
  CoordinatorEvents events;
  events.on_lost = [](std::int32_t, const Error& why) { FAIL() << why.message; };
  events.on_leave = [&](std::int32_t worker, const Leave& leave) {
    left.set_value({worker, leave.signal});
  };
  start(1, std::move(events));
  auto members = join_all(workers_, 1);
  members[0]->leave(12, soon());
  EXPECT_EQ(left.get_future().get(), std::pair(0, 12)) << "with the signal that it leaves for";
  members.clear();
  coordinator_.reset();
}

}  // namespace
}  // namespace muster::cluster
