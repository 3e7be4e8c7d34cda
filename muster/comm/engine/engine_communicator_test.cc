#include "muster/comm/engine/engine_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "muster/comm/engine/errors.h"
#include "muster/comm/engine/inbox.h"
#include "muster/testing/soon.h"

namespace muster::comm {
namespace {

using muster::testing::soon;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr Group kThree{Rank{1}, 3, Generation{4}};
constexpr Duration kPatience = std::chrono::seconds(30);  // of calls that end before

// An engine that does what a test says.
struct Acting {
  std::function<Status(const Call&)> run = [](const Call&) { return ok(); };
  std::function<Result<bool>()> send = [] { return true; };
  std::function<Result<bool>()> recv = [] { return false; };
  bool has_part = false;  // of what it receives
  std::vector<Rank> awaited = {};
};

class ActingEngine final : public Engine {
 public:
  explicit ActingEngine(Acting acting) : acting_(std::move(acting)) {}

  Status run(const Call& call) override { return acting_.run(call); }
  Result<bool> try_send(const Send&, Deadline) override { return acting_.send(); }
  Result<bool> try_recv(const Recv&) override { return acting_.recv(); }
  bool has_part(const Recv&) const override { return acting_.has_part; }
  std::optional<Awaited> awaited() const override {
    return Awaited{Awaited::Over::kMemory, acting_.awaited};
  }
  std::uint32_t activity() const noexcept override { return inbox_.activity(); }
  void await_activity(std::uint32_t seen, TimePoint until) override {
    inbox_.await_activity(seen, until);
  }
  void wake() noexcept override { inbox_.wake(); }
  void fail(const Error& why) noexcept override { inbox_.fail(why); }
  void stop(const Error& why) noexcept override { inbox_.fail(why); }
  Result<std::unique_ptr<Engine>> split(Group, std::int32_t, const Exchange&, Deadline) override {
    return muster::fail(ErrorCode::kUnavailable, "rank 1 has no memory", Rank{1});
  }

 private:
  const Acting acting_;
  Inbox inbox_{kThree.size, system_clock()};
};

std::shared_ptr<Communicator> communicator_of(Acting acting) {
  return create_communicator(kThree, std::make_unique<ActingEngine>(std::move(acting)),
                             system_clock());
}

OpOptions for_loss(Duration timeout = kPatience) {
  OpOptions options;
  options.timeout = timeout;
  options.label = "loss";
  return options;
}

Recv recv_from_0() { return {{DType::kU8, {0}, {}}, Rank{0}}; }

Status break_an_invariant(const Call&) { throw std::logic_error("a schedule ends"); }

void expect_broken(const Status& status, const std::string& operation) {
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kInternal);
  EXPECT_EQ(status.error().peer, kThree.rank);
  EXPECT_THAT(status.error().message,
              AllOf(HasSubstr("[comm/" + operation + "] rank 1 broke in generation 4 (loss, "),
                    HasSubstr("a schedule ends")));
}

void expect_ended(Communicator& world, const Error& why) {
  const Status later = world.submit(Barrier{}, {}).wait();
  ASSERT_FALSE(later);
  EXPECT_EQ(later.error(), why);
}

TEST(EngineCommunicator, WhatAnEngineThrowsEndsTheGroupAsAnErrorWhereSomebodyWaits) {
  const auto world = communicator_of({.run = break_an_invariant});
  const Status status = world->submit(Barrier{}, for_loss()).wait();
  expect_broken(status, "barrier");
  expect_ended(*world, status.error());
}

TEST(EngineCommunicator, WhatAnEngineThrowsEndsTheGroupAsAnErrorWhereNobodyWaits) {
  const auto world = communicator_of({.run = break_an_invariant});
  const Work work = world->submit(Barrier{}, for_loss());
  ASSERT_TRUE(work.wait_until(system_clock(), soon().at()));
  expect_broken(work.wait(), "barrier");
}

TEST(EngineCommunicator, WhatAnEngineThrowsOverAMessageEndsTheGroupAsAnError) {
  const auto world = communicator_of(
      {.recv = []() -> Result<bool> { throw std::logic_error("a schedule ends"); }});
  const Status status = world->submit(recv_from_0(), for_loss()).wait();
  expect_broken(status, "recv");
  expect_ended(*world, status.error());
}

TEST(EngineCommunicator, AMessageTakenInPartEndsTheGroupAtItsDeadline) {
  for (const bool has_part : {false, true}) {
    const auto world = communicator_of({.has_part = has_part});
    const Status status =
        world->submit(recv_from_0(), for_loss(std::chrono::milliseconds(10))).wait();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kTimeout);
    EXPECT_EQ(status.error().peer, Rank{0});
    const Status later = world->submit(Barrier{}, {}).wait();
    EXPECT_EQ(later.has_value(), !has_part);
  }
}

TEST(EngineCommunicator, AMessageBehindAnotherKeepsItsOwnDeadline) {
  const auto world = communicator_of({});
  const Work first = world->submit(recv_from_0(), for_loss(std::chrono::hours(1)));
  const Work second = world->submit(recv_from_0(), for_loss(std::chrono::milliseconds(10)));
  ASSERT_TRUE(second.wait_until(system_clock(), soon().at()));
  const Status status = second.wait();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kTimeout);
  EXPECT_FALSE(first.done());
}

TEST(EngineCommunicator, ASendBlamesWhomAnothersTimeoutNames) {
  const auto send_ends_with = [](const Rank peer) {
    const auto world = communicator_of({.send = [peer]() -> Result<bool> {
      return fail(ErrorCode::kTimeout, "rank 0 gave up: rank 2 did not answer", peer);
    }});
    return world->submit(Send{recv_from_0().tensor, Rank{0}}, for_loss()).wait();
  };
  const Status told = send_ends_with(Rank{2});
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().peer, Rank{2});
  EXPECT_THAT(told.error().message,
              AllOf(HasSubstr("[comm/send]"), HasSubstr("rank 2 did not answer")));
  const Status own = send_ends_with(kNoRank);
  ASSERT_FALSE(own);
  EXPECT_EQ(own.error().peer, Rank{0});
  EXPECT_THAT(own.error().message, HasSubstr("rank 0 did not answer within 30.0 s"));
}

// The engine's own thread looks for it rarely by then.
TEST(EngineCommunicator, WhatNobodyWaitsForBeginsAfterManyThatSomebodyWaitedFor) {
  const auto world = communicator_of({});
  for (const std::size_t together : {1u, 3u}) {
    const Deadline busy = Deadline::after(system_clock(), std::chrono::milliseconds(10));
    while (!busy.passed(system_clock())) ASSERT_TRUE(world->submit(Barrier{}, {}).wait());
    std::vector<Work> works;
    for (std::size_t i = 0; i < together; ++i) works.push_back(world->submit(Barrier{}, {}));
    const Deadline until = soon();
    while (!works.back().done() && !until.passed(system_clock())) std::this_thread::yield();
    EXPECT_TRUE(works.back().done()) << together;
  }
}

// Of ranks 1 and 2 of three, who would be ranks 0 and 1.
TEST(EngineCommunicator, AnErrorOfSplitNamesRanksOfTheGroupThatWasSplit) {
  const auto world = communicator_of({.run = [](const Call& call) {
    const auto colours = std::get<AllGather>(call.op).output.as<std::int32_t>();
    for (std::size_t rank = 0; rank < 3; ++rank) colours[2 * rank] = rank == 0 ? 1 : 0;
    return ok();
  }});
  const auto part = world->split(0, 0);
  ASSERT_FALSE(part);
  EXPECT_EQ(part.error().peer, Rank{2});
  EXPECT_THAT(part.error().message,
              HasSubstr("rank 1 has no memory (ranks 0, 1 of this part of the group are 1, 2 of "
                        "the whole)"));
}

// Of the operation that runs the engine knows for whom it waits; the next one has not begun.
TEST(EngineCommunicator, SaysForWhomTheOperationWaitsThatRuns) {
  std::promise<void> begun;
  std::promise<void> end;
  const auto run = [&, first = true](const Call&) mutable -> Status {
    if (!std::exchange(first, false)) return ok();
    begun.set_value();
    end.get_future().wait();
    return fail(ErrorCode::kTimeout, "rank 2 did not come", Rank{2});
  };
  const auto world = communicator_of({.run = run, .awaited = {Rank{2}}});
  const Work running = world->submit(Barrier{}, {});
  const Work queued = world->submit(Barrier{}, {});
  const Work message = world->submit(recv_from_0(), for_loss());
  std::promise<std::optional<Awaited>> as_it_failed;
  running.note_done([&](const Status&) { as_it_failed.set_value(running.awaited()); });
  std::thread waiter([&] { EXPECT_FALSE(running.wait()); });
  begun.get_future().wait();
  const Awaited rank_2{Awaited::Over::kMemory, {Rank{2}}};
  EXPECT_EQ(running.awaited(), rank_2);
  EXPECT_EQ(queued.awaited(), (Awaited{Awaited::Over::kMemory, {}}));
  EXPECT_FALSE(message.awaited());
  end.set_value();
  waiter.join();
  EXPECT_EQ(as_it_failed.get_future().get(), rank_2);
  EXPECT_FALSE(queued.wait());
  EXPECT_FALSE(queued.awaited());
  EXPECT_FALSE(Work::ended(ok()).awaited());
}

TEST(TimeoutError, NamesOnlyRanksThatAreKnown) {
  const auto text = [](const std::vector<Rank>& missing) {
    return timeout_error(Barrier{}, for_loss(), kThree, missing).message;
  };
  EXPECT_THAT(text({kNoRank}), HasSubstr("[comm/barrier] some rank did not answer within 30.0 s"));
  EXPECT_THAT(text({}), HasSubstr("some rank did not answer"));
  EXPECT_THAT(text({Rank{2}}), HasSubstr("] rank 2 did not answer"));
  EXPECT_THAT(text({Rank{0}, Rank{2}}), HasSubstr("] ranks 0, 2 did not answer"));
}

}  // namespace
}  // namespace muster::comm
