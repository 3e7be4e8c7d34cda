#pragma once
// How fast the ranks of a world exchange tensors: collectives timed through the contract that
// training uses (submit, wait), their results verified, each beside the time that memory or the
// links would take at best.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/app/world/world.h"
#include "muster/base/dtype.h"
#include "muster/comm/backend/native/native.h"
#include "muster/comm/op.h"

namespace muster::app {

enum class Collective : std::uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kAllToAll
};
inline constexpr Collective kAllCollectives[] = {Collective::kAllReduce, Collective::kReduceScatter,
                                                 Collective::kAllGather, Collective::kBroadcast,
                                                 Collective::kAllToAll};
std::string_view to_string(Collective collective) noexcept;  // "all_reduce"

struct CommBench {
  std::vector<Collective> operations = {Collective::kAllReduce};
  // Of the larger of an operation's two tensors, as nccl-tests counts; rounded down to what every
  // rank has the same share of.
  std::vector<std::uint64_t> sizes;
  DType dtype = DType::kF32;  // a floating-point type
  comm::Algorithm algorithm = comm::Algorithm::kAuto;
  comm::NativeTransport transport = comm::NativeTransport::kAuto;
  bool over_mpi = false;  // by the MPI that has started the ranks, whatever `transport` says
  bool foreign = false;   // tensors in memory of the caller's instead of the engine's
  Duration time = std::chrono::milliseconds(300);  // of each operation at each size, about
};

// As one rank's program hands it to another's.
std::string to_text(const CommBench& bench);
Result<CommBench> comm_bench_from(std::string_view text);

struct CommSetting {
  std::int32_t ranks = 1;
  std::int32_t hosts = 1;
  bool memory = false;                        // else links
  bool over_mpi = false;                      // links of MPI
  std::optional<comm::CostTable> links = {};  // as the ranks measured them when they met
};

// Of one operation at one size; each time is that of the slowest rank, after a barrier.
struct CommTiming {
  Collective operation = Collective::kAllReduce;
  std::uint64_t bytes = 0;
  std::string schedule;  // "ring"; "direct": everybody reads everybody's memory
  std::int64_t repetitions = 0;
  Duration median{0};
  Duration late{0};  // the 99th percentile
  // What all ranks need at once to copy, or to pass to their neighbours, as many bytes as each has
  // to in this operation: measured in the same run.
  Duration limit{0};
};

// Bytes a second of the tensor, and what a link or memory carries of it: the factor of the
// operation as in nccl-tests, by which sizes of worlds and operations can be compared.
double algorithm_bandwidth(const CommTiming& timing);
double bus_bandwidth(const CommTiming& timing, std::int32_t ranks);

// Told on rank 0, as it goes.
struct CommWatch {
  std::function<void(const CommSetting&)> begins = [](const CommSetting&) {};
  std::function<void(const CommTiming&)> measured = [](const CommTiming&) {};
};

// Collective. kInternal: a result was wrong, said which; else what an operation ended with.
Status bench_comm(const World& world, const CommBench& bench, const CommWatch& watch);

}  // namespace muster::app
