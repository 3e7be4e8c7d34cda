// A group is aborted in the middle of its operations and built anew, over and over, as training
// does after each failure: memory, descriptors, threads and mappings stay what they were.
// MUSTER_REBUILD_CYCLES: how often, instead of what the tests below take.

#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "muster/base/testing/sanitized.h"
#include "tests/ranks/processes/rank_network.h"
#include "tests/ranks/processes/rank_processes.h"

namespace muster::comm {
namespace {

constexpr std::int32_t kRebuilders = 3;
constexpr std::size_t kSummed = std::size_t{1} << 14;  // elements: some chunks or frames
constexpr int kSumsUnderWay = 3;

std::size_t entries_of(const char* folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

std::size_t count_lines(const char* file) {
  std::ifstream in(file);
  std::size_t count = 0;
  for (std::string line; std::getline(in, line);) ++count;
  return count;
}

// What this process holds.
struct Footprint {
  std::size_t descriptors = entries_of("/proc/self/fd");
  std::size_t threads = entries_of("/proc/self/task");
  std::size_t mappings = count_lines("/proc/self/maps");
  std::size_t allocated = ::mallinfo2().uordblks;  // bytes that were not given back
  std::size_t resident = resident_bytes();

  static std::size_t resident_bytes() {
    std::size_t whole = 0;
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> whole >> pages;
    return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  }
};

// Far less than what one leaked object a cycle comes to, more than what allocators keep at hand.
constexpr std::size_t kSpareBytes = std::size_t{32} << 10;
constexpr std::size_t kSpareResident = std::size_t{4} << 20;
constexpr std::size_t kSpareMappings = 8;  // of threads' arenas and stacks

bool is_flat(const Footprint& before, const Footprint& now) {
  if (now.descriptors > before.descriptors || now.threads > before.threads) return false;
  // A sanitizer maps more while it keeps what was freed, to know when it is touched, and counts by
  // itself: what is leaked it tells at the end.
  return kSanitized || (now.mappings <= before.mappings + kSpareMappings &&
                        now.allocated < before.allocated + kSpareBytes &&
                        now.resident < before.resident + kSpareResident);
}

// Of no group: what it has closed goes when its peers have taken everything.
Footprint footprint_at_rest() {
  Footprint last;
  for (int unchanged = 0; unchanged < 10;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const Footprint now;
    unchanged =
        now.descriptors == last.descriptors && now.threads == last.threads ? unchanged + 1 : 0;
    last = now;
  }
  return last;
}

bool comes_to_rest(const Footprint& before) {
  const auto limit = Deadline::after(system_clock(), std::chrono::seconds(30));
  for (;;) {
    const Footprint now;
    if (is_flat(before, now)) return true;
    if (!limit.passed(system_clock())) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      continue;
    }
    std::fprintf(
        stderr,
        "descriptors %zu -> %zu, threads %zu -> %zu, mappings %zu -> %zu, allocated %zu -> "
        "%zu, resident %zu -> %zu\n",
        before.descriptors, now.descriptors, before.threads, now.threads, before.mappings,
        now.mappings, before.allocated, now.allocated, before.resident, now.resident);
    return false;
  }
}

// Until it is aborted; whether every rank learns by whom.
bool work_until_aborted(Communicator& world, Rank culprit) {
  OpOptions options;
  options.timeout = std::chrono::minutes(5);
  std::vector<float> own(kSummed, 1.0F);
  const auto buffer = world.allocate(kSummed * sizeof(float));
  if (!buffer) return false;
  const std::span handed_out(reinterpret_cast<float*>((*buffer)->data()), kSummed);
  std::vector<Work> works;
  for (int i = 0; i < kSumsUnderWay; ++i)
    works.push_back(world.submit(
        AllReduce{view_of(i % 2 == 0 ? std::span(own) : handed_out), Reduce::kMax}, options));
  const Rank self = world.group().rank;
  const Rank next{(to_int(self) + 1) % world.group().size};
  float never = 0;
  works.push_back(world.submit(Recv{view_of(std::span(&never, 1)), next}, options));
  static_cast<void>(works.front().wait());
  if (self == culprit) world.abort(fail(ErrorCode::kPeerLost, "enough of it", self));
  static_cast<void>(wait_for_all(works));
  const Status later = world.submit(Barrier{}, options).wait();
  if (!later && later.error().peer == culprit) return true;
  std::fprintf(stderr, "rank %d: %s\n", to_int(self),
               later ? "no error" : later.error().message.c_str());
  return false;
}

// After so many groups what OpenSSL keeps of TLS sessions, and all else that is kept, is full.
constexpr int kUntilFullOverTcp = kSanitized ? 20 : 800;
constexpr int kUntilFull = kSanitized ? 20 : 60;

// What every rank does in its process.
class Rebuilder {
 public:
  Rebuilder(Group group, Exchange exchange, NativeTransport transport,
            const net::Credentials& credentials)
      : group_(group),
        exchange_(std::move(exchange)),
        transport_(transport),
        network_(credentials) {}

  // Exit status.
  int run(int cycles) {
    const int until_full = transport_ == NativeTransport::kTcp ? kUntilFullOverTcp : kUntilFull;
    if (!rebuild(until_full) || !part()) return 10;
    const Footprint before = footprint_at_rest();
    if (!rebuild(cycles) || !part()) return 11;
    return comes_to_rest(before) ? 0 : 12;
  }

 private:
  bool rebuild(int times) {
    for (int i = 0; i < times; ++i) {
      group_.generation = Generation{++generations_};
      auto next = network_.join(group_, exchange_, transport_);
      if (!next) {
        std::fprintf(stderr, "rank %d: %s\n", to_int(group_.rank), next.error().message.c_str());
        return false;
      }
      world_ = std::move(*next);  // the one before goes when all have heard of its end
      if (!work_until_aborted(*world_, Rank{i % group_.size})) return false;
    }
    return true;
  }

  bool part() {
    const auto heard =
        exchange_("", Deadline::after(system_clock(), std::chrono::minutes(1))).has_value();
    world_.reset();
    return heard;
  }

  Group group_;
  const Exchange exchange_;
  const NativeTransport transport_;
  RankNetwork network_;
  std::shared_ptr<Communicator> world_;
  std::uint64_t generations_ = 0;
};

// Of shared memory that has a name, of whomever.
std::size_t named_memories() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    if (entry.path().filename().string().find("muster") != std::string::npos) ++count;
  return count;
}

void expect_flat(NativeTransport transport, int cycles) {
  if (const char* wish = std::getenv("MUSTER_REBUILD_CYCLES")) cycles = std::atoi(wish);
  const auto credentials = net::create_credentials(system_clock().wall()).value();
  const std::size_t named = named_memories();
  RankProcesses ranks(kRebuilders, [&](Group group, const Exchange& exchange) {
    return Rebuilder(group, exchange, transport, credentials).run(cycles);
  });
  for (std::int32_t rank = 0; rank < kRebuilders; ++rank)
    EXPECT_EQ(ranks.wait(rank), 0) << "rank " << rank << ", " << cycles << " cycles";
  EXPECT_EQ(named_memories(), named);
}

TEST(Rebuild, LeavesNothingBehindInSharedMemory) {
  expect_flat(NativeTransport::kSharedMemory, kSanitized ? 100 : 500);
}

TEST(Rebuild, LeavesNothingBehindOverTcp) {
  expect_flat(NativeTransport::kTcp, kSanitized ? 50 : 1200);
}

}  // namespace
}  // namespace muster::comm
