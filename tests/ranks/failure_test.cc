// What happens when something goes wrong, or in an unusual order.

#include <atomic>
#include <barrier>
#include <future>
#include <numeric>
#include <thread>

#include "muster/testing/soon.h"
#include "tests/ranks/ranks.h"

namespace muster::comm {
namespace {

OpOptions within(Duration timeout) {
  OpOptions options;
  options.timeout = timeout;
  options.label = "gradients/2";
  return options;
}

void sum_ones(Communicator& world) {
  std::vector<std::int32_t> values(1000, 1);
  const Status status = world.submit(AllReduce{view_of(std::span(values))}, {}).wait();
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(values, std::vector<std::int32_t>(1000, world.group().size));
}

TEST_P(Conformance, ManyOperationsInFlight) {
  on_every_rank(create(4), [](Communicator& world) {
    constexpr std::size_t kOperations = 60;
    std::vector<std::vector<float>> buffers(kOperations);
    std::vector<Work> works;
    for (std::size_t i = 0; i < kOperations; ++i) {
      buffers[i].assign(i * 37, static_cast<float>(i));
      const TensorView view = view_of(std::span(buffers[i]));
      works.push_back(i % 3 == 2 ? world.submit(Broadcast{view, Rank{1}}, {})
                                 : world.submit(AllReduce{view}, {}));
    }
    for (const Work& work : works) ASSERT_TRUE(work.wait());
    for (std::size_t i = 0; i < kOperations; ++i)
      EXPECT_EQ(buffers[i],
                std::vector<float>(i * 37, static_cast<float>(i) * (i % 3 == 2 ? 1 : 4)));
  });
}

// Overlap rests on it: the engine has a thread of its own for what nobody waits for yet.
TEST_P(Conformance, WhatNobodyWaitsForRunsAllTheSame) {
  on_every_rank(create(3), [](Communicator& world) {
    std::vector<std::vector<float>> buffers(3, std::vector<float>(1000, 1.0F));
    for (int round = 0; round < 20; ++round) {  // its thread is awake, or not any more
      std::vector<Work> works;
      for (auto& buffer : buffers) {
        buffer.assign(buffer.size(), 1.0F);
        works.push_back(world.submit(AllReduce{view_of(std::span(buffer))}, {}));
      }
      const Deadline until = muster::testing::soon();
      while (!works.back().done() && !until.passed(system_clock())) std::this_thread::yield();
      for (const Work& work : works) ASSERT_TRUE(work.done());
      for (const auto& buffer : buffers) EXPECT_EQ(buffer, std::vector<float>(1000, 3.0F));
      if (round % 5 == 4) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
}

// Several threads wait, each for an operation of its own, and whoever runs one does not keep the
// others waiting.
TEST_P(Conformance, EachOfSeveralThreadsWaitsForItsOwnOperation) {
  on_every_rank(create(2), [](Communicator& world) {
    for (int round = 0; round < 50; ++round) {
      std::vector<std::vector<float>> buffers(4, std::vector<float>(3000, 1.0F));
      std::vector<Work> works;
      for (auto& buffer : buffers)
        works.push_back(world.submit(AllReduce{view_of(std::span(buffer))}, {}));
      std::vector<std::thread> threads;
      for (const Work& work : works) threads.emplace_back([&work] { ASSERT_TRUE(work.wait()); });
      for (std::thread& thread : threads) thread.join();
      for (const auto& buffer : buffers) EXPECT_EQ(buffer, std::vector<float>(3000, 2.0F));
    }
  });
}

TEST_P(Conformance, CallbackRunsOnceWithTheOutcome) {
  on_every_rank(create(2), [](Communicator& world) {
    std::atomic<int> calls = 0;
    std::vector<float> values(10, 1.0F);
    const Work work = world.submit(AllReduce{view_of(std::span(values))}, {});
    work.on_done([&](const Status& status) { calls += status ? 1 : 100; });
    ASSERT_TRUE(work.wait());
    const Status barrier = world.submit(Barrier{}, {}).wait();  // the callback ran before
    ASSERT_TRUE(barrier);
    EXPECT_EQ(calls, 1);
  });
}

TEST_P(Conformance, BarrierHoldsEverybody) {
  for (const std::int32_t size : kSizes) {
    std::atomic<int> arrived = 0;
    on_every_rank(create(size), [&](Communicator& world) {
      for (int round = 1; round <= 20; ++round) {
        ++arrived;
        ASSERT_TRUE(world.submit(Barrier{}, {}).wait());
        EXPECT_GE(arrived, round * size);
        ASSERT_TRUE(world.submit(Barrier{}, {}).wait());
      }
    });
  }
}

TEST_P(Conformance, SplitGroupsByColourInOrderOfKey) {
  on_every_rank(create(5), [](Communicator& world) {
    const std::int32_t rank = to_int(world.group().rank);
    auto part = world.split(rank % 2, -rank);
    ASSERT_TRUE(part) << part.error().message;
    const Group group = (*part)->group();
    EXPECT_EQ(group.size, rank % 2 == 0 ? 3 : 2);
    EXPECT_EQ(to_int(group.rank), (rank % 2 == 0 ? 4 - rank : 3 - rank) / 2);
    EXPECT_EQ(group.generation, world.group().generation);
    const auto members =
        rank % 2 == 0 ? std::vector{Rank{4}, Rank{2}, Rank{0}} : std::vector{Rank{3}, Rank{1}};
    EXPECT_EQ((*part)->members(), members);
    std::int32_t sum = rank;
    ASSERT_TRUE((*part)->submit(AllReduce{view_of(std::span(&sum, 1))}, {}).wait());
    EXPECT_EQ(sum, rank % 2 == 0 ? 6 : 4);
    sum_ones(world);
    auto again = (*part)->split(0, 0);  // parts divide too
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ((*again)->members(), members);
    sum_ones(**again);
    ASSERT_TRUE(world.submit(Barrier{}, {}).wait());
  });
}

TEST_P(Conformance, AllocatedMemoryIsZeroAlignedAndReduces) {
  on_every_rank(create(3), [](Communicator& world) {
    for (const std::size_t count : {1U, 1000U, 300000U}) {
      auto buffer = world.allocate(count * sizeof(float));
      ASSERT_TRUE(buffer) << buffer.error().message;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>((*buffer)->data()) % 64, 0U);
      const TensorView view{DType::kF32, {static_cast<std::int64_t>(count)}, **buffer};
      const auto values = view.as<float>();
      EXPECT_EQ(std::accumulate(values.begin(), values.end(), 0.0F), 0.0F);
      std::iota(values.begin(), values.end(), static_cast<float>(to_int(world.group().rank)));
      const Status status = world.submit(AllReduce{view}, {}).wait();
      ASSERT_TRUE(status) << status.error().message;
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(values[i], 3.0F * static_cast<float>(i) + 3.0F) << i;
    }
  });
}

TEST_P(Conformance, TimeoutNamesTheRankThatIsMissing) {
  for (const std::int32_t missing : {0, 2, 4}) {
    on_every_rank(create(5), [&](Communicator& world) {
      sum_ones(world);
      static std::barrier everybody(5);  // the missing rank leaves after the others have failed
      everybody.arrive_and_wait();       // nor do the others differ in when they begin to wait
      if (to_int(world.group().rank) != missing) {
        std::vector<float> values(1000, 1.0F);
        const Status status =
            world.submit(AllReduce{view_of(std::span(values))}, within(std::chrono::seconds(2)))
                .wait();
        ASSERT_FALSE(status);
        EXPECT_EQ(status.error().peer, Rank{missing}) << status.error().message;
        EXPECT_EQ(status.error().code, ErrorCode::kTimeout) << status.error().message;
        EXPECT_THAT(status.error().message,
                    ::testing::AllOf(::testing::HasSubstr("[comm/all_reduce]"),
                                     ::testing::HasSubstr("gradients/2"),
                                     ::testing::HasSubstr("F32 [1000]"),
                                     ::testing::HasSubstr("generation 1"),
                                     ::testing::HasSubstr("rank " + std::to_string(missing))));
        const Status later = world.submit(Barrier{}, {}).wait();
        ASSERT_FALSE(later);
        EXPECT_EQ(later.error().peer, Rank{missing});
      }
      everybody.arrive_and_wait();
    });
  }
}

TEST_P(Conformance, TimeoutOfAReceiveNamesTheSender) {
  on_every_rank(create(3), [&](Communicator& world) {
    if (to_int(world.group().rank) == 0) {
      float value = 0;
      const Status status = world
                                .submit(Recv{view_of(std::span(&value, 1)), Rank{2}},
                                        within(std::chrono::milliseconds(100)))
                                .wait();
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code, ErrorCode::kTimeout);
      EXPECT_EQ(status.error().peer, Rank{2});
    }
    sum_ones(world);  // a message that never came breaks nothing else
  });
}

// What comes next under that tag is nobody's guess.
TEST_P(Conformance, AMessageOfAnotherLengthEndsTheGroup) {
  on_every_rank(create(2), [&](Communicator& world) {
    std::vector<float> three(3, 1.0F);
    float value = 0;
    const TensorView one = view_of(std::span(&value, 1));
    if (to_int(world.group().rank) == 0) {
      ASSERT_TRUE(world.submit(Send{view_of(std::span(three)), Rank{1}, 5}, {}).wait());
    } else {
      const Status status = world.submit(Recv{one, Rank{0}, 5}, {}).wait();
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code, ErrorCode::kInvalid) << status.error().message;
      EXPECT_EQ(status.error().peer, Rank{0});
      EXPECT_THAT(status.error().message, ::testing::HasSubstr("sent 12 bytes where 4 were"));
    }
    EXPECT_FALSE(world.submit(Barrier{}, {}).wait());
  });
}

// Far more than an abort takes anywhere, and far less than the operations' own deadlines.
constexpr Duration kAtOnce = std::chrono::minutes(1);
constexpr Duration kTheirDeadline = std::chrono::minutes(5);

Error death_of_rank_3() {
  return fail(ErrorCode::kPeerLost, "rank 3 was killed by SIGKILL", Rank{3});
}

// From another thread than those that submit and wait.
TimePoint abort_at(Communicator& communicator) {
  const TimePoint now = system_clock().now();
  std::thread([&] { communicator.abort(death_of_rank_3()); }).join();
  return now;
}

void expect_aborted(const std::vector<Work>& works, TimePoint at) {
  for (const Work& work : works) {
    const Status status = work.wait();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().peer, Rank{3}) << status.error().message;
    EXPECT_THAT(status.error().message, ::testing::HasSubstr("SIGKILL"));
  }
  EXPECT_LT(system_clock().now() - at, kAtOnce);
}

TEST_P(Conformance, AbortEndsEverythingEverywhere) {
  const Ranks ranks = create(4);
  std::vector<Work> works;
  std::vector<std::vector<float>> buffers(9, std::vector<float>(5000, 1.0F));
  for (std::size_t rank = 0; rank < 3; ++rank)  // rank 3 never comes
    for (std::size_t i = 0; i < 3; ++i)
      works.push_back(ranks[rank]->submit(AllReduce{view_of(std::span(buffers[3 * rank + i]))},
                                          within(kTheirDeadline)));
  float value = 0;
  works.push_back(
      ranks[1]->submit(Recv{view_of(std::span(&value, 1)), Rank{3}}, within(kTheirDeadline)));
  expect_aborted(works, abort_at(*ranks[1]));
  const Status later = ranks[1]->submit(Barrier{}, {}).wait();
  ASSERT_FALSE(later);
  EXPECT_EQ(later.error(), death_of_rank_3());
}

// So many that whatever is done of them, more are under way or waiting.
void abort_amid_sums(const Ranks& ranks, const std::vector<std::span<std::byte>>& buffers) {
  constexpr int kSums = 40;
  std::vector<std::vector<Work>> sums(ranks.size());
  for (int i = 0; i < kSums; ++i)
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const TensorView view{
          DType::kF32, {static_cast<std::int64_t>(buffers[rank].size() / 4)}, buffers[rank]};
      sums[rank].push_back(
          ranks[rank]->submit(AllReduce{view, Reduce::kMax}, within(kTheirDeadline)));
    }
  const Status first = sums[0][0].wait();  // data moves
  ASSERT_TRUE(first) << first.error().message;
  const TimePoint at = abort_at(*ranks[1]);
  for (const auto& own : sums) {
    expect_aborted({own.back()}, at);
    for (const Work& work : own) static_cast<void>(work.wait());  // its memory is free then
  }
  EXPECT_LT(system_clock().now() - at, kAtOnce);
}

TEST_P(Conformance, AbortEndsALargeSumInItsMiddle) {
  constexpr std::size_t kBytes = std::size_t{kSanitized ? 8 : 64} << 20;
  std::vector<std::vector<std::byte>> memory(4, std::vector<std::byte>(kBytes));
  abort_amid_sums(create(4), {memory.begin(), memory.end()});
  if (GetParam().name != "SharedMemory") return;  // else allocated memory is like any other
  const Ranks ranks = create(4);
  std::vector<Buffer> allocated;
  std::vector<std::span<std::byte>> buffers;
  for (const auto& rank : ranks) {
    auto buffer = rank->allocate(kBytes);
    ASSERT_TRUE(buffer) << buffer.error().message;
    buffers.push_back(**buffer);
    allocated.push_back(std::move(*buffer));
  }
  abort_amid_sums(ranks, buffers);
}

// Where the thread that does the work stands still, abort() returns all the same: that thread goes
// on only afterwards.
TEST_P(Conformance, AbortDoesNotWaitForWhoDoesTheWork) {
  const Ranks ranks = create(2);
  std::promise<void> stands_still;
  std::promise<void> returned;
  std::promise<bool> saw_the_return;
  const Work work = ranks[1]->submit(Barrier{}, within(kTheirDeadline));
  work.on_done([&](const Status&) {
    stands_still.set_value();
    saw_the_return.set_value(returned.get_future().wait_for(std::chrono::minutes(1)) ==
                             std::future_status::ready);
  });
  std::thread other([&] { static_cast<void>(ranks[0]->submit(Barrier{}, {}).wait()); });
  stands_still.get_future().wait();
  ranks[1]->abort(death_of_rank_3());
  ranks[0]->abort(death_of_rank_3());
  returned.set_value();
  EXPECT_TRUE(saw_the_return.get_future().get()) << "abort() waited for the thread";
  other.join();
}

TEST_P(Conformance, ARankThatLeavesIsNamed) {
  Ranks ranks = create(3);
  on_every_rank(ranks, sum_ones);
  ranks[2].reset();
  for (std::size_t rank : {0U, 1U}) {
    const Status status = ranks[rank]->submit(Barrier{}, within(kAtOnce)).wait();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kPeerLost) << status.error().message;
    EXPECT_EQ(status.error().peer, Rank{2}) << status.error().message;
  }
}

// The waiting thread may be the one that runs the operation.
TEST_P(Conformance, AWaitEndsWhenItsCommunicatorGoes) {
  Ranks ranks = create(2);
  const Work work = ranks[0]->submit(Barrier{}, within(kTheirDeadline));
  std::promise<void> waits;
  std::future<Status> outcome = std::async(std::launch::async, [&] {
    waits.set_value();
    return work.wait();
  });
  waits.get_future().wait();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the likelier for it
  ranks[0].reset();
  const Status status = outcome.get();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kCancelled) << status.error().message;
}

// Ranks 0 and 2 know nothing of each other's other group, in which rank 3 has died.
TEST_P(Conformance, AbortEndsThePartsOfAGroupAsWell) {
  const Ranks ranks = create(4);
  Ranks parts(4);
  on_every_rank(ranks, [&](Communicator& world) {
    const auto rank = static_cast<std::size_t>(to_int(world.group().rank));
    auto part = world.split(static_cast<int>(rank % 2), 0);
    ASSERT_TRUE(part) << part.error().message;
    parts[rank] = std::move(*part);
  });
  std::vector<float> values(100, 1.0F);
  const Work sum = parts[0]->submit(AllReduce{view_of(std::span(values))}, within(kTheirDeadline));
  const TimePoint at = abort_at(*ranks[2]);
  const Status status = sum.wait();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().peer, Rank{2}) << status.error().message;
  EXPECT_THAT(status.error().message, ::testing::HasSubstr("SIGKILL"));
  EXPECT_LT(system_clock().now() - at, kAtOnce);
}

TEST_P(Conformance, ErrorsOfAPartNameRanksOfTheWhole) {
  Ranks ranks = create(5);
  Ranks parts(5);
  on_every_rank(ranks, [&](Communicator& world) {
    const auto rank = static_cast<std::size_t>(to_int(world.group().rank));
    auto part = world.split(static_cast<int>(rank % 2), 0);
    ASSERT_TRUE(part) << part.error().message;
    parts[rank] = std::move(*part);
  });
  parts[4].reset();
  ranks[4].reset();
  float value = 0;
  const Status message =
      parts[2]->submit(Recv{view_of(std::span(&value, 1)), Rank{2}}, within(kAtOnce)).wait();
  ASSERT_FALSE(message);
  EXPECT_EQ(message.error().peer, Rank{4}) << message.error().message;
  const Status barrier = parts[0]->submit(Barrier{}, within(kAtOnce)).wait();
  ASSERT_FALSE(barrier);
  EXPECT_EQ(barrier.error().peer, Rank{4}) << barrier.error().message;
  EXPECT_THAT(barrier.error().message,
              ::testing::HasSubstr("ranks 0, 1, 2 of this part of the group are 0, 2, 4 of the"));
}

TEST_P(Conformance, WhatWasSentArrivesThoughTheSenderLeft) {
  Ranks ranks = create(2);
  std::vector<float> sent(70000, 3.0F);
  ASSERT_TRUE(ranks[0]->submit(Send{view_of(std::span(sent)), Rank{1}, 9}, {}).wait());
  ranks[0].reset();
  std::vector<float> received(70000);
  const Status status = ranks[1]->submit(Recv{view_of(std::span(received)), Rank{0}, 9}, {}).wait();
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(received, sent);
}

TEST_P(Conformance, ImpossibleOperationsAreRefused) {
  on_every_rank(create(3), [](Communicator& world) {
    std::vector<float> three(3);
    std::vector<float> ten(10);
    const TensorView a = view_of(std::span(three));
    const TensorView b = view_of(std::span(ten));
    const auto tree = std::make_shared<SumTree>(4, 4);  // made for four ranks
    const auto for_two = std::make_shared<const Shards>(Shards{{0, 3, 10}});
    const auto falling = std::make_shared<const Shards>(Shards{{0, 3, 2, 10}});
    const auto short_of_ten = std::make_shared<const Shards>(Shards{{0, 3, 6, 9}});
    const auto others = std::make_shared<const Shards>(Shards{{0, 4, 8, 10}});  // none has three
    const Op refused[] = {AllGather{b, a},
                          AllGather{b, a, for_two},
                          AllGather{b, a, others},
                          ReduceScatter{a, b},
                          ReduceScatter{a, b, Reduce::kSum, for_two},
                          ReduceScatter{a, b, Reduce::kSum, falling},
                          ReduceScatter{a, b, Reduce::kSum, short_of_ten},
                          ReduceScatter{a, b, Reduce::kSum, nullptr, tree},
                          AllToAll{b, b},
                          Broadcast{a, Rank{3}},
                          Send{a, Rank{-1}},
                          AllReduce{a, Reduce::kSum, tree}};
    for (const Op& op : refused) {
      const Status status = world.submit(op, {}).wait();
      ASSERT_FALSE(status) << describe(op);
      EXPECT_EQ(status.error().code, ErrorCode::kInvalid);
    }
    sum_ones(world);
  });
}

TEST_P(Conformance, DifferentLengthsAreAnErrorNotACorruption) {
  on_every_rank(create(2), [](Communicator& world) {
    std::vector<float> values(to_int(world.group().rank) == 0 ? 100 : 4000, 1.0F);
    const Status status =
        world.submit(AllReduce{view_of(std::span(values))}, within(std::chrono::seconds(2))).wait();
    EXPECT_FALSE(status);
  });
}

}  // namespace
}  // namespace muster::comm
