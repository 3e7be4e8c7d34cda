#include "muster/app/bench/comm_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "muster/app/bench/timed_operation.h"
#include "muster/base/hash.h"
#include "muster/base/units.h"
#include "muster/comm/backend/native/shared_memory.h"
#include "muster/comm/cost.h"
#include "muster/comm/schedule.h"

namespace muster::app {
namespace {

constexpr std::int64_t kWarmUps = 3;
constexpr std::int64_t kLeast = 5;     // repetitions that count
constexpr std::int64_t kMost = 5'000;  // keeps the times of small ones small
constexpr std::int64_t kMostOfLimit = 50;

comm::OpOptions options_for(const CommBench& bench, std::string_view what) {
  comm::OpOptions options;
  options.label = std::string("bench/") + std::string(what);
  options.algorithm = bench.algorithm;
  return options;
}

// Everything that is timed or told goes through here; one rank's view.
class Bench {
 public:
  Bench(const World& world, const CommBench& bench)
      : world_(world), comm_(world.communicator()), bench_(bench), clock_(system_clock()) {}

  Status prepare();
  const CommSetting& setting() const noexcept { return setting_; }
  Result<CommTiming> measure(Collective collective, std::uint64_t bytes);

 private:
  using Action = std::function<Status()>;
  Status run(const comm::Op& op, std::string_view what) {
    return comm_.submit(op, options_for(bench_, what)).wait();
  }
  Status look_around();
  Result<std::span<std::byte>> memory(std::size_t bytes);
  Result<Duration> time_once(const Action& action);
  Result<std::int64_t> agree(std::int64_t mine);
  Result<std::vector<double>> repeat(const Action& action, std::int64_t most);
  Status prove(const TimedOperation& timed);
  Status copy(std::uint64_t bytes);
  Status pass_on(std::uint64_t bytes);
  std::string schedule_of(const TimedOperation& timed) const;

  const World& world_;
  comm::Communicator& comm_;
  const CommBench& bench_;
  Clock& clock_;
  CommSetting setting_;
  comm::Topology topology_ = comm::Topology::apart(1);  // as the engine has it over TCP
  BenchBuffers buffers_{};
  std::vector<comm::Buffer> handed_out_;
  std::vector<std::vector<std::byte>> foreign_;
};

Result<std::span<std::byte>> Bench::memory(std::size_t bytes) {
  if (bench_.foreign) {
    constexpr std::size_t kLine = 64;
    auto& owner = foreign_.emplace_back(bytes + kLine);
    const auto at = reinterpret_cast<std::uintptr_t>(owner.data());
    return std::span(owner).subspan((kLine - at % kLine) % kLine, bytes);
  }
  MUSTER_ASSIGN(auto buffer, comm_.allocate(bytes));
  handed_out_.push_back(buffer);
  return *buffer;
}

// How many hosts there are. Ranks of one kernel share memory, unless they were told not to.
Status Bench::look_around() {
  const std::int32_t ranks = comm_.group().size;
  const std::string kernel = comm::boot_id();
  const Digest digest = sha256(std::as_bytes(std::span(kernel)));
  std::int64_t mine = 0;
  std::memcpy(&mine, digest.data(), sizeof mine);
  std::vector<std::int64_t> hosts(static_cast<std::size_t>(ranks));
  MUSTER_TRY(run(
      comm::AllGather{.output = view_of(std::span(hosts)), .input = view_of(std::span(&mine, 1))},
      "hosts"));
  const std::set<std::int64_t> different(hosts.begin(), hosts.end());
  const bool apart = bench_.over_mpi || bench_.transport == comm::NativeTransport::kTcp;
  setting_ = {.ranks = ranks,
              .hosts = static_cast<std::int32_t>(different.size()),
              .memory = different.size() == 1 && !apart,
              .over_mpi = bench_.over_mpi,
              .links = world_.link_costs()};
  std::vector<std::string> names(hosts.size());  // empty: every rank is by itself, as over TCP
  if (!apart)
    std::ranges::transform(hosts, names.begin(), [](std::int64_t h) { return std::to_string(h); });
  topology_ = comm::Topology::of_names(names);
  return ok();
}

Status Bench::prepare() {
  MUSTER_TRY(look_around());
  // The smallest sizes are rounded up to an element for each rank.
  const std::size_t most =
      std::max<std::size_t>(*std::ranges::max_element(bench_.sizes),
                            static_cast<std::size_t>(comm_.group().size) * size_of(bench_.dtype));
  MUSTER_ASSIGN(buffers_.first, memory(most));
  MUSTER_ASSIGN(buffers_.second, memory(most));
  return ok();
}

Result<Duration> Bench::time_once(const Action& action) {
  MUSTER_TRY(run(comm::Barrier{}, "barrier"));
  const TimePoint began = clock_.now();
  MUSTER_TRY(action());
  return clock_.now() - began;
}

// On what rank 0 says.
Result<std::int64_t> Bench::agree(std::int64_t mine) {
  MUSTER_TRY(run(comm::Broadcast{view_of(std::span(&mine, 1))}, "repetitions"));
  return mine;
}

// Seconds of each repetition, of the rank that was slowest in it, ascending.
Result<std::vector<double>> Bench::repeat(const Action& action, std::int64_t most) {
  Duration tried{0};
  for (std::int64_t i = 0; i < kWarmUps; ++i) {
    MUSTER_ASSIGN(const Duration took, time_once(action));
    tried = std::max(took, Duration{1});
  }
  MUSTER_ASSIGN(const std::int64_t repetitions,
                agree(std::clamp<std::int64_t>(bench_.time / tried, kLeast, most)));
  std::vector<double> seconds;
  for (std::int64_t i = 0; i < repetitions; ++i) {
    MUSTER_ASSIGN(const Duration took, time_once(action));
    seconds.push_back(to_seconds(took));
  }
  MUSTER_TRY(run(comm::AllReduce{view_of(std::span(seconds)), comm::Reduce::kMax}, "times"));
  std::ranges::sort(seconds);
  return seconds;
}

Status Bench::prove(const TimedOperation& timed) {
  timed.fill();
  MUSTER_TRY(run(timed.op(), comm::name(timed.op())));
  const Status right = timed.check();
  // Nobody goes on where one is wrong.
  std::int64_t wrong = right ? 0 : 1;
  MUSTER_TRY(run(comm::AllReduce{view_of(std::span(&wrong, 1))}, "proof"));
  MUSTER_TRY(right);
  if (wrong == 0) return ok();
  return fail(
      ErrorCode::kInternal,
      fmt::format("[bench/comm] {} of {} bytes was wrong on {} other rank(s), which say how",
                  comm::name(timed.op()), timed.bytes(), wrong));
}

Status Bench::copy(std::uint64_t bytes) {
  std::memcpy(buffers_.second.data(), buffers_.first.data(), bytes);
  return ok();
}

// To the next rank, from the one before, both at once.
Status Bench::pass_on(std::uint64_t bytes) {
  const comm::Group& group = comm_.group();
  const auto part = [&](std::span<std::byte> of, std::uint64_t begin, std::uint64_t count) {
    const auto piece = of.subspan(begin, count);
    return TensorView{DType::kU8, {static_cast<std::int64_t>(piece.size())}, piece};
  };
  const std::int32_t me = to_int(group.rank);
  const Rank next{(me + 1) % group.size};
  const Rank previous{(me + group.size - 1) % group.size};
  // An all-reduce sends more than its tensor has.
  for (std::uint64_t begin = 0; begin < bytes; begin += buffers_.first.size()) {
    const std::uint64_t count = std::min<std::uint64_t>(bytes - begin, buffers_.first.size());
    const auto options = options_for(bench_, "limit");
    const std::vector<comm::Work> both = {
        comm_.submit(comm::Send{part(buffers_.first, 0, count), next}, options),
        comm_.submit(comm::Recv{part(buffers_.second, 0, count), previous}, options)};
    MUSTER_TRY(comm::wait_for_all(both));
  }
  return ok();
}

std::string Bench::schedule_of(const TimedOperation& timed) const {
  if (setting_.memory) return "direct";
  // As the engine chooses (comm/engine/schedule_engine.cc).
  return comm::describe(comm::choose_method(
      comm::representative(comm::collective_of(timed.op())), {bench_.algorithm}, topology_,
      setting_.links.value_or(comm::default_costs(comm::Wire::kTcp))));
}

Duration at_share(const std::vector<double>& ascending, double share) {
  const auto last = static_cast<double>(ascending.size() - 1);
  const std::chrono::duration<double> seconds{
      ascending[static_cast<std::size_t>(std::lround(share * last))]};
  return std::chrono::duration_cast<Duration>(seconds);
}

Result<CommTiming> Bench::measure(Collective collective, std::uint64_t bytes) {
  const TimedOperation timed(collective, bytes, bench_.dtype, comm_.group(), buffers_);
  MUSTER_TRY(prove(timed));
  timed.clear();
  MUSTER_ASSIGN(const auto times,
                repeat([&] { return run(timed.op(), comm::name(timed.op())); }, kMost));
  MUSTER_TRY(prove(timed));
  CommTiming timing{.operation = collective,
                    .bytes = timed.bytes(),
                    .schedule = schedule_of(timed),
                    .repetitions = static_cast<std::int64_t>(times.size()),
                    .median = at_share(times, 0.5),
                    .late = at_share(times, 0.99)};
  if (comm_.group().size == 1) return timing;
  MUSTER_ASSIGN(const auto limit, repeat(
                                      [&] {
                                        return setting_.memory ? copy(timed.bytes_to_copy())
                                                               : pass_on(timed.bytes_to_send());
                                      },
                                      kMostOfLimit));
  timing.limit = at_share(limit, 0.5);
  return timing;
}

}  // namespace

std::string_view to_string(Collective collective) noexcept {
  switch (collective) {
    case Collective::kAllReduce:
      return "all_reduce";
    case Collective::kReduceScatter:
      return "reduce_scatter";
    case Collective::kAllGather:
      return "all_gather";
    case Collective::kBroadcast:
      return "broadcast";
    case Collective::kAllToAll:
      return "all_to_all";
  }
  return "?";
}

double algorithm_bandwidth(const CommTiming& timing) {
  return static_cast<double>(timing.bytes) / to_seconds(timing.median);
}

double bus_bandwidth(const CommTiming& timing, std::int32_t ranks) {
  return algorithm_bandwidth(timing) * sent_share(timing.operation, ranks);
}

Status bench_comm(const World& world, const CommBench& bench, const CommWatch& watch) {
  Bench rank(world, bench);
  MUSTER_TRY(rank.prepare());
  const bool tells = world.rank() == 0;
  if (tells) watch.begins(rank.setting());
  for (const Collective operation : bench.operations) {
    for (const std::uint64_t bytes : bench.sizes) {
      MUSTER_ASSIGN(const CommTiming timing, rank.measure(operation, bytes));
      if (tells) watch.measured(timing);
    }
  }
  return ok();
}

}  // namespace muster::app
