#include "muster/comm/backend/native/shared_group.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "muster/cluster/store.h"
#include "muster/comm/backend/native/native.h"

namespace muster::comm {
namespace {

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
  auto made = SharedGroup::create(kTwo, std::size_t{1} << 20, system_clock(), exchange,
                                  Deadline::after(system_clock(), std::chrono::seconds(10)));
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
        SharedGroup::create(group, std::size_t{1} << 20, system_clock(), exchange,
                            Deadline::after(system_clock(), std::chrono::seconds(10))));
    return count;
  };
  const Departed departed;
  EXPECT_EQ(exchanges({Rank{0}, 1, Generation{3}}, ""), 3);
  EXPECT_EQ(exchanges(kTwo, to_text(MemoryAddress{departed.pid, 3, 7})), 3);
}

// As where a newer generation begins, of which only rank 1 has heard.
TEST(SharedGroup, WhoFailsInTheLastExchangeAloneIsNotWaitedFor) {
  const Deadline deadline = Deadline::after(system_clock(), std::chrono::seconds(20));
  const auto store = cluster::create_memory_store();
  const auto create = [&](Group group, const Exchange& exchange) {
    return SharedGroup::create(group, std::size_t{1} << 20, system_clock(), exchange, deadline);
  };
  std::thread other([&] {
    constexpr Group kThere{Rank{1}, 2, Generation{3}};
    const Exchange whole = exchange_through(*store, kThere, "meeting");
    int round = 0;
    const Exchange broken = [&](const std::string& mine,
                                Deadline until) -> Result<std::vector<std::string>> {
      auto heard = whole(mine, until);
      if (++round < 3) return heard;
      return fail(ErrorCode::kStale, "generation 3 has ended");
    };
    EXPECT_FALSE(create(kThere, broken));
  });
  const auto made = create(kTwo, exchange_through(*store, kTwo, "meeting"));
  other.join();
  ASSERT_TRUE(made) << made.error().message;
  const Status met = (*made)->meet(deadline);
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().code, ErrorCode::kPeerLost) << met.error().message;
  EXPECT_EQ(met.error().peer, Rank{1});
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
