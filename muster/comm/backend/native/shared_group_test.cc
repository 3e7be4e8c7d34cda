#include "muster/comm/backend/native/shared_group.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "muster/cluster/store.h"
#include "muster/comm/backend/native/native.h"
#include "muster/comm/backend/native/shared_collective.h"
#include "muster/comm/backend/native/shared_engine.h"
#include "muster/testing/soon.h"

namespace muster::comm {
namespace {

using muster::testing::soon;

constexpr Group kTwo{Rank{0}, 2, Generation{3}};

// Rank 1 has told what it should, and died before its memory was opened.
struct Departed {
  Departed() : pid(::fork()) {
    if (pid == 0) ::_exit(0);
    ::waitpid(pid, nullptr, 0);
  }
  const int pid;
};

// What rank 1 says in each exchange; an error once it says no more.
Exchange with_words_of_rank_1(std::vector<std::string> words) {
  return [words = std::move(words), round = std::size_t{0}](
             const std::string& mine, Deadline) mutable -> Result<std::vector<std::string>> {
    if (round == words.size()) return fail(ErrorCode::kPeerLost, "rank 1 did not come", Rank{1});
    return std::vector{mine, words[round++]};
  };
}

Error why_not_shared(const Exchange& exchange) {
  auto made = SharedGroup::create(kTwo, std::size_t{1} << 20, system_clock(), exchange, soon());
  return made ? Error{} : made.error();
}

TEST(SharedGroup, MissesWhoDiedBeforeItsMemoryWasOpened) {
  const Departed departed;
  const Error why =
      why_not_shared(with_words_of_rank_1({to_text(MemoryAddress{departed.pid, 3, 7}), ""}));
  EXPECT_EQ(why.code, ErrorCode::kPeerLost) << why.message;
  EXPECT_EQ(why.peer, Rank{1});
}

TEST(SharedGroup, SaysWhatToDoWhereProcessesAreKeptApart) {
  const Departed departed;  // a process of another container is not to be seen either
  const Error why =
      why_not_shared(with_words_of_rank_1({to_text(MemoryAddress{departed.pid, 3, 7}), "", ""}));
  EXPECT_EQ(why.code, ErrorCode::kUnavailable) << why.message;
  EXPECT_NE(why.message.find("set communication.transport to tcp"), std::string::npos);
}

// Ranks of other parts of a group that is split take part in the same exchanges.
TEST(SharedGroup, ExchangesEquallyOftenWhetherOrNotItCanShare) {
  const auto exchanges = [](Group group, const std::string& introduction) {
    int count = 0;
    const Exchange exchange = [&](const std::string& mine,
                                  Deadline) -> Result<std::vector<std::string>> {
      std::vector<std::string> all(static_cast<std::size_t>(group.size));
      if (count++ == 0) all.back() = introduction;
      all.front() = mine;
      return all;
    };
    static_cast<void>(
        SharedGroup::create(group, std::size_t{1} << 20, system_clock(), exchange, soon()));
    return count;
  };
  const Departed departed;
  EXPECT_EQ(exchanges({Rank{0}, 1, Generation{3}}, ""), 3);
  EXPECT_EQ(exchanges(kTwo, to_text(MemoryAddress{departed.pid, 3, 7})), 3);
}

// As where a newer generation begins, of which only rank 1 has heard.
TEST(SharedGroup, WhoFailsInTheLastExchangeAloneIsNotWaitedFor) {
  const Deadline deadline = soon();
  const auto store = cluster::create_memory_store();
  const auto create = [&](Group group, const Exchange& exchange) {
    return SharedGroup::create(group, std::size_t{1} << 20, system_clock(), exchange, deadline);
  };
  std::thread other([&] {
    constexpr Group kRemote{Rank{1}, 2, Generation{3}};
    const Exchange whole = exchange_through(*store, kRemote, "meeting");
    int round = 0;
    const Exchange broken = [&](const std::string& mine,
                                Deadline until) -> Result<std::vector<std::string>> {
      auto heard = whole(mine, until);
      if (++round < 3) return heard;
      return fail(ErrorCode::kStale, "generation 3 has ended");
    };
    EXPECT_FALSE(create(kRemote, broken));
  });
  const auto made = create(kTwo, exchange_through(*store, kTwo, "meeting"));
  other.join();
  ASSERT_TRUE(made) << made.error().message;
  const Status met = (*made)->meet(deadline);
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().code, ErrorCode::kPeerLost) << met.error().message;
  EXPECT_EQ(met.error().peer, Rank{1});
}

// The system's, which tells of each look at it, but for those of the teller.
class WatchedClock final : public Clock {
 public:
  TimePoint now() const noexcept override {
    if (looked && !telling_) {
      telling_ = true;
      looked();
      telling_ = false;
    }
    return system_clock().now();
  }
  WallTime wall() const noexcept override { return system_clock().wall(); }
  bool wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& condition,
                  TimePoint until) override {
    return system_clock().wait_until(lock, condition, until);
  }

  std::function<void()> looked;

 private:
  mutable bool telling_ = false;
};

struct ReadsFrom {  // by rank
  std::size_t first = kReadsFrom;
  std::size_t second = kReadsFrom;
};

// Both ranks of a group, in this process; rank 0 has the clock.
struct BothRanks {
  explicit BothRanks(Clock& clock, ReadsFrom reads = {}) {
    const auto store = cluster::create_memory_store();
    const auto meet = [&](Rank rank, Clock& own, std::size_t reads_from) {
      const Group group{rank, 2, Generation{3}};
      return SharedGroup::create(group, std::size_t{1} << 20, own,
                                 exchange_through(*store, group, "meeting"), soon(), reads_from);
    };
    std::thread other([&] { second = meet(Rank{1}, system_clock(), reads.second).value(); });
    first = meet(Rank{0}, clock, reads.first).value();
    other.join();
  }

  std::shared_ptr<SharedGroup> first, second;
};

std::int64_t times_slept() {
  rusage use{};
  ::getrusage(RUSAGE_THREAD, &use);
  return use.ru_nvcsw;
}

TEST(SharedGroup, KnowsForWhomARankWaits) {
  const BothRanks ranks(system_clock());
  const std::vector<Rank> nobody;
  EXPECT_EQ(ranks.first->awaited(), nobody);
  ASSERT_FALSE(ranks.first->meet(Deadline(TimePoint{})));
  EXPECT_EQ(ranks.first->awaited(), std::vector{Rank{1}});
  EXPECT_EQ(ranks.second->awaited(), nobody) << "it is waited for";
  ASSERT_TRUE(ranks.second->meet(soon()));
  EXPECT_EQ(ranks.first->awaited(), nobody);
  ASSERT_FALSE(ranks.second->meet(Deadline(TimePoint{})));
  EXPECT_EQ(ranks.second->awaited(), std::vector{Rank{0}});
  EXPECT_EQ(create_shared_engine(ranks.second)->awaited(),
            (Awaited{Awaited::Over::kMemory, {Rank{0}}}));
}

Error enough() { return fail(ErrorCode::kCancelled, "enough", Rank{1}); }

// Whoever is about to sleep looks for the last time before that, and sees nothing yet.
TEST(SharedGroup, AFailureBetweenLookAndSleepIsNotSleptThrough) {
  WatchedClock clock;
  const BothRanks ranks(clock);
  const auto sleepers = [&] {
    return ranks.first->control(Rank{1}).sleepers.count +
           ranks.first->control(Rank{0}).outside.count;
  };
  std::int64_t slept = -1;
  clock.looked = [&] {
    if (slept >= 0 || sleepers() == 0) return;
    ranks.second->fail(enough(), true);
    slept = times_slept();
  };
  const Status met = ranks.first->meet(soon());
  const std::int64_t slept_in_all = times_slept();
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().code, ErrorCode::kCancelled) << met.error().message;
  EXPECT_EQ(slept_in_all, slept);
}

TEST(SharedGroup, WhoFailsWaitsForThoseWhoAreAtItsTensors) {
  WatchedClock clock;
  const BothRanks ranks(clock);
  const auto engine = create_shared_engine(ranks.first);
  SharedAccess access(*ranks.second);
  ASSERT_TRUE(access.open());
  engine->fail(enough());
  int looks = 0;
  Status closed = ok();
  clock.looked = [&] {
    if (++looks == 3) closed = access.close();
  };
  engine->drain();
  EXPECT_GE(looks, 3) << "it did not wait";
  ASSERT_FALSE(closed) << "what was read may be anything";
  EXPECT_EQ(closed.error().code, ErrorCode::kCancelled) << closed.error().message;
}

TEST(SharedGroup, WhoStandsStillAtATensorIsGivenUp) {
  const BothRanks ranks(system_clock());
  SharedAccess access(*ranks.second);
  ASSERT_TRUE(access.open());
  ranks.first->fail(enough(), true);
  ranks.first->await_rest(Deadline(TimePoint{}));  // returns
}

TEST(SharedGroup, NobodyBeginsAtTensorsOfWhoHasGivenUp) {
  for (const bool tells : {true, false}) {
    const BothRanks ranks(system_clock());
    ranks.first->fail(enough(), tells);
    SharedAccess access(*ranks.second);
    const Status opened = access.open();
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, tells ? ErrorCode::kCancelled : ErrorCode::kPeerLost);
    EXPECT_EQ(ranks.second->mine().inside, 0u);
  }
}

// Rank 0 comes to a sum in shared memory, finds nobody there and gives up: then it comes.
TEST(SharedGroup, WhoComesLateWritesIntoNoTensorOfWhoHasGivenUp) {
  constexpr std::size_t kMany = 32 * 1024;  // more than each sums alone
  const BothRanks ranks(system_clock());
  const auto floats_of = [](const std::shared_ptr<SharedGroup>& group) {
    auto buffer = SharedGroup::allocate(group, kMany * sizeof(float)).value();
    const std::span numbers(reinterpret_cast<float*>(buffer->data()), kMany);
    std::ranges::fill(numbers, 1.0F);
    return std::pair(std::move(buffer), numbers);
  };
  const auto [mine, my_numbers] = floats_of(ranks.first);
  const auto [theirs, their_numbers] = floats_of(ranks.second);
  const auto sum = [](const std::shared_ptr<SharedGroup>& group, std::span<float> numbers,
                      Deadline deadline) {
    const Op op = AllReduce{view_of(numbers)};
    return SharedCollectives(group).run({op, {}, 1, deadline});
  };
  const Status first = sum(ranks.first, my_numbers, Deadline(TimePoint{}));
  ASSERT_FALSE(first);
  ASSERT_EQ(first.error().code, ErrorCode::kTimeout);
  ranks.first->fail({ErrorCode::kTimeout, "rank 1 did not come", Rank{1}}, true);
  const Status second = sum(ranks.second, their_numbers, soon());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kTimeout) << second.error().message;
  EXPECT_TRUE(std::ranges::all_of(my_numbers, [](float number) { return number == 1.0F; }));
}

constexpr std::size_t kPart = 2 * kReadsFrom / sizeof(float);  // more than each takes alone

Status gather(const std::shared_ptr<SharedGroup>& group, std::span<float> all, std::span<float> own,
              Deadline deadline) {
  const Op op = AllGather{view_of(all), view_of(own)};
  return SharedCollectives(group).run({op, {}, 1, deadline});
}

// Whether anything has gone through the slots of a rank, where pages are zero until then.
bool used_slots(const std::shared_ptr<SharedGroup>& group) {
  const auto& slots = group->mine().slots;
  return std::ranges::any_of(slots, [](std::byte byte) { return byte != std::byte{0}; });
}

void expect_gathered(const BothRanks& ranks, std::size_t part, bool through_slots) {
  const auto play = [part](const std::shared_ptr<SharedGroup>& group, float number) {
    std::vector<float> own(part, number);
    std::vector<float> all(2 * part);
    const Status done = gather(group, all, own, soon());
    EXPECT_TRUE(done) << done.error().message;
    std::vector<float> expected(part, 1.0F);
    expected.resize(2 * part, 2.0F);
    EXPECT_EQ(all, expected);
  };
  std::thread other([&] { play(ranks.second, 2.0F); });
  play(ranks.first, 1.0F);
  other.join();
  EXPECT_EQ(used_slots(ranks.first), through_slots);
  EXPECT_EQ(used_slots(ranks.second), through_slots);
}

TEST(SharedCollectives, LargePartsOfForeignTensorsAreReadWhereTheyLie) {
  constexpr std::size_t kBytes = kPart * sizeof(float);
  expect_gathered(BothRanks(system_clock()), kPart, false);
  expect_gathered(BothRanks(system_clock(), {.second = kBytes}), kPart, false);
  expect_gathered(BothRanks(system_clock(), {.second = kBytes + 1}), kPart, true);
}

TEST(SharedCollectives, ForeignTensorsGoThroughSlotsWhereOneRankWillNotRead) {
  const BothRanks ranks(system_clock(), {.second = kNoReads});
  EXPECT_EQ(ranks.first->reads_from(), kNoReads);
  EXPECT_EQ(ranks.second->reads_from(), kNoReads);
  EXPECT_NE(ranks.first->describe_reads().find("rank 1"), std::string::npos)
      << ranks.first->describe_reads();
  expect_gathered(ranks, kPart, true);
}

TEST(SharedGroup, ReadsFromTheMostThatARankWishesFor) {
  const BothRanks ranks(system_clock(), {.first = 1, .second = 1000});
  EXPECT_EQ(ranks.first->reads_from(), 1000U);
  EXPECT_EQ(ranks.second->reads_from(), 1000U);
}

// Rank 0 finds nobody and gives up: its tensor is its own again when rank 1 comes.
TEST(SharedCollectives, WhoComesLateReadsNoTensorOfWhoHasGivenUp) {
  const BothRanks ranks(system_clock());
  std::vector<float> own(kPart, 1.0F);
  std::vector<float> all(2 * kPart);
  const Status first = gather(ranks.first, all, own, Deadline(TimePoint{}));
  ASSERT_FALSE(first);
  ASSERT_EQ(first.error().code, ErrorCode::kTimeout);
  ranks.first->fail({ErrorCode::kTimeout, "rank 1 did not come", Rank{1}}, true);
  const Status second = gather(ranks.second, all, own, soon());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kTimeout) << second.error().message;
  EXPECT_EQ(all, std::vector<float>(2 * kPart));
}

// A process that ends has no memory any more before the system says that it has ended.
TEST(SharedGroup, WhoseMemoryIsGoneIsSoonKnownToHaveEnded) {
  const BothRanks ranks(system_clock());
  const Error why = fail(ErrorCode::kNotFound, "No such process");
  std::thread other([&] { ranks.second->fail(enough(), false); });
  const Error lost = ranks.first->why_unread(Rank{1}, why, soon());
  other.join();
  EXPECT_EQ(lost.code, ErrorCode::kPeerLost) << lost.message;
  EXPECT_EQ(lost.peer, Rank{1});
  const BothRanks alive(system_clock());
  const Error unread = alive.first->why_unread(Rank{1}, why, Deadline(TimePoint{}));
  EXPECT_EQ(unread.code, ErrorCode::kUnavailable);
  EXPECT_EQ(unread.peer, Rank{1});
  EXPECT_NE(unread.message.find("No such process"), std::string::npos) << unread.message;
}

// Until it goes, this process can open nothing.
struct NoDescriptors {
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before);
    const rlimit none{0, before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before); }
  rlimit before{};
};

// Until it goes, no file of this process may be larger. The signal is left as it is: a program of
// a user's may not have ignored it.
struct SmallFiles {
  explicit SmallFiles(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before);
    const rlimit small{bytes, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallFiles() { ::setrlimit(RLIMIT_FSIZE, &before); }
  rlimit before{};
};

TEST(SharedMemory, NamesTheLimitThatItDoesNotFitIn) {
  const SmallFiles small(std::size_t{1} << 20);
  EXPECT_TRUE(SharedMemory::create(std::size_t{1} << 20));
  const auto large = SharedMemory::create(std::size_t{2} << 20);
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(large.error().message.find("2.0 MiB"), std::string::npos) << large.error().message;
  EXPECT_NE(large.error().message.find("ulimit -f"), std::string::npos) << large.error().message;
}

TEST(ProcessWatch, TakesOnlyWhoHasEndedForDead) {
  const Departed departed;
  const auto dead = ProcessWatch::start(departed.pid);
  ASSERT_TRUE(dead) << dead.error().message;
  EXPECT_TRUE((*dead)->ended());
  const auto alive = ProcessWatch::start(own_pid());
  ASSERT_TRUE(alive) << alive.error().message;
  EXPECT_FALSE((*alive)->ended());
  const NoDescriptors none;
  const auto unknown = ProcessWatch::start(own_pid());
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(unknown.error().message.find("pidfd_open"), std::string::npos);
}

}  // namespace
}  // namespace muster::comm
