// One rank is killed, frozen, or leaves in an orderly way while an operation runs: every other one
// ends with the right kind of error, before its deadline, and names it. Real processes.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdio>
#include <deque>
#include <ostream>
#include <thread>

#include "muster/base/testing/sanitized.h"
#include "tests/ranks/processes/rank_network.h"
#include "tests/ranks/processes/rank_processes.h"
#include "tests/ranks/processes/rounds.h"

namespace muster::comm {
namespace {

enum class Loss : std::uint8_t { kKilled, kFrozen, kLeft };
enum class Memory : std::uint8_t { kFew, kForeign, kHandedOut };

struct Way {
  NativeTransport transport;
  Loss loss;
};
std::string name_of(const Way& way) {
  const std::string transport = way.transport == NativeTransport::kTcp ? "Tcp" : "SharedMemory";
  constexpr const char* kLosses[] = {"Killed", "Frozen", "Left"};
  return transport + kLosses[static_cast<std::size_t>(way.loss)];
}
void PrintTo(const Way& way, std::ostream* out) { *out << name_of(way); }

struct Case {
  std::int32_t size;
  Operation operation;
  Rank lost;
  Memory memory;
};

constexpr std::size_t kFewElements = 64;  // few enough for the way of small tensors
std::size_t many_elements(NativeTransport transport) {
  if (transport != NativeTransport::kTcp) return std::size_t{1} << 18;  // more than one chunk
  return std::size_t{1} << (kSanitized ? 18 : 22);  // a message of each is cut into several
}

// The deadline that a frozen rank is missed at: far longer than any of these operations takes.
constexpr Duration kUntilMissed = std::chrono::seconds(kSanitized ? 10 : 3);
constexpr Duration kFar = std::chrono::minutes(5);
// Of ranks that know after their deadline who it was: a bound on a hang, not a measurement.
constexpr Duration kSlack = std::chrono::minutes(1);

std::vector<Case> cases_of(const Way& way) {
  std::vector<Case> cases;
  const bool tcp = way.transport == NativeTransport::kTcp;
  // 2: a core each on most machines; 5: shared ones.
  const std::vector<std::int32_t> sizes = tcp ? std::vector{3} : std::vector{2, 5};
  for (const std::int32_t size : sizes)
    for (const Operation operation : kEveryOperation)
      for (const Memory memory : {Memory::kFew, Memory::kForeign, Memory::kHandedOut}) {
        if (memory != Memory::kFew && operation == Operation::kBarrier) continue;
        if (memory == Memory::kHandedOut && tcp) continue;  // it is like any other
        cases.push_back({size, operation, Rank{size - 1}, memory});
        // Who sends what all others get is another rank then.
        if (tcp) cases.push_back({size, operation, Rank{0}, memory});
      }
  return cases;
}

// What the ranks of one case and the test tell each other.
struct Signs {
  std::atomic<std::int32_t> begun{0};  // ranks that have come through their first round
  std::atomic<std::int32_t> ended{0};  // that have seen their error
};

class SharedSigns {
 public:
  SharedSigns()
      : signs_(new (::mmap(nullptr, sizeof(Signs), PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Signs) {}
  ~SharedSigns() { ::munmap(signs_, sizeof(Signs)); }
  SharedSigns(const SharedSigns&) = delete;
  SharedSigns& operator=(const SharedSigns&) = delete;
  Signs& operator*() const noexcept { return *signs_; }

 private:
  Signs* const signs_;
};

bool await_ranks(const std::atomic<std::int32_t>& count, std::int32_t ranks) {
  const auto limit = Deadline::after(system_clock(), kSlack);
  while (count < ranks && !limit.passed(system_clock()))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return count >= ranks;
}

// One rank of a case, in its own process.
class Member {
 public:
  Member(Way way, const Case& which, Group group, Signs& signs)
      : way_(way), case_(which), group_(group), signs_(signs) {
    options_.timeout = way.loss == Loss::kFrozen ? kUntilMissed : kFar;
  }

  int run(const Exchange& exchange, const net::Credentials& credentials) {
    RankNetwork network(credentials);
    auto world = network.join(group_, exchange, way_.transport);
    if (!world) return said(10, world.error().message);
    const std::size_t count =
        case_.memory == Memory::kFew ? kFewElements : many_elements(way_.transport);
    auto buffer = (*world)->allocate(count * sizeof(float));
    if (!buffer) return said(11, buffer.error().message);
    std::vector<float> own(case_.memory == Memory::kHandedOut ? 0 : count);
    Round round(case_.operation, group_, case_.lost,
                own.empty() ? std::span(reinterpret_cast<float*>((*buffer)->data()), count) : own);
    round.fill();
    const bool leaves = group_.rank == case_.lost && way_.loss == Loss::kLeft;
    return leaves ? leave(*world, round) : operate(**world, round);
  }

 private:
  int said(int status, const std::string& why) const {
    std::fprintf(stderr, "rank %d: %s\n", to_int(group_.rank), why.c_str());
    return status;
  }

  std::vector<Work> submit(Communicator& world, const Round& round) const {
    std::vector<Work> works;
    for (Op& op : round.ops()) works.push_back(world.submit(std::move(op), options_));
    return works;
  }

  // Until something fails; 0: as it should.
  int operate(Communicator& world, const Round& round) {
    for (bool first = true;; first = false) {
      const TimePoint submitted = system_clock().now();
      const Status status = wait_for_all(submit(world, round));
      if (!status) return end(status.error(), system_clock().now() - submitted);
      if (first && !round.is_right()) return said(12, "wrong values");
      if (first) ++signs_.begun;
    }
  }

  // What it tells the others of its end would be lost with its process.
  int end(const Error& error, Duration after) {
    const int judged = judge(error, after);
    ++signs_.ended;
    static_cast<void>(await_ranks(signs_.ended, group_.size - 1));
    return judged;
  }

  int judge(const Error& error, Duration after) const {
    const bool frozen = way_.loss == Loss::kFrozen;
    if (error.peer != case_.lost) return said(20, error.message);
    if (error.code != (frozen ? ErrorCode::kTimeout : ErrorCode::kPeerLost))
      return said(21, error.message);
    if (after > options_.timeout + (frozen ? kSlack : Duration(0)))
      return said(22, "after the deadline: " + error.message);
    return 0;
  }

  // Goes while operations are under way, and stays as a process.
  int leave(std::shared_ptr<Communicator>& world, const Round& round) {
    constexpr std::size_t kAhead = 100;
    std::vector<Work> works;
    for (std::size_t i = 0; i < kAhead; ++i)
      for (Work& work : submit(*world, round)) works.push_back(std::move(work));
    works.back().on_done([](const Status&) {});  // begins them
    if (!await_ranks(signs_.begun, group_.size - 1)) return said(13, "the others did not begin");
    ++signs_.begun;
    world.reset();
    static_cast<void>(wait_for_all(works));
    ::pause();
    return 14;
  }

  const Way way_;
  const Case case_;
  const Group group_;
  Signs& signs_;
  OpOptions options_;
};

// A group whose rank has been lost.
class Scene {
 public:
  Scene(const Way& way, const Case& which, const net::Credentials& credentials)
      : case_(which), ranks_(which.size, [&](Group group, const Exchange& exchange) {
          return Member(way, which, group, *signs_).run(exchange, credentials);
        }) {
    EXPECT_TRUE(await_ranks((*signs_).begun, which.size)) << describe();
    if (way.loss == Loss::kKilled) ranks_.signal(to_int(which.lost), SIGKILL);
    if (way.loss == Loss::kFrozen) ranks_.signal(to_int(which.lost), SIGSTOP);
  }

  void expect_named_by_all() {
    for (std::int32_t rank = 0; rank < case_.size; ++rank) {
      if (Rank{rank} == case_.lost) continue;
      EXPECT_EQ(ranks_.wait(rank), 0) << "rank " << rank << " of " << describe();
    }
  }

 private:
  std::string describe() const {
    return std::to_string(case_.size) + ", " + std::string(name(case_.operation)) + ", memory " +
           std::to_string(static_cast<int>(case_.memory)) + ", without rank " +
           std::to_string(to_int(case_.lost));
  }

  const Case case_;
  const SharedSigns signs_;
  RankProcesses ranks_;
};

class LostRank : public ::testing::TestWithParam<Way> {};

// So many at a time that few wait for their deadlines one after another.
constexpr std::size_t kAtOnce = 16;

TEST_P(LostRank, IsNamedByAllOthersOfEachOperation) {
  const auto credentials = net::create_credentials(system_clock().wall()).value();
  const std::size_t at_once = GetParam().loss == Loss::kFrozen ? kAtOnce : 1;
  std::deque<Scene> scenes;
  for (const Case& which : cases_of(GetParam())) {
    scenes.emplace_back(GetParam(), which, credentials);
    if (scenes.size() < at_once) continue;
    scenes.front().expect_named_by_all();
    scenes.pop_front();
  }
  for (Scene& scene : scenes) scene.expect_named_by_all();
}

INSTANTIATE_TEST_SUITE_P(All, LostRank,
                         ::testing::Values(Way{NativeTransport::kSharedMemory, Loss::kKilled},
                                           Way{NativeTransport::kSharedMemory, Loss::kFrozen},
                                           Way{NativeTransport::kSharedMemory, Loss::kLeft},
                                           Way{NativeTransport::kTcp, Loss::kKilled},
                                           Way{NativeTransport::kTcp, Loss::kFrozen},
                                           Way{NativeTransport::kTcp, Loss::kLeft}),
                         [](const auto& way) { return name_of(way.param); });

}  // namespace
}  // namespace muster::comm
