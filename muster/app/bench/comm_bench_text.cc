// How the command hands a benchmark to the programs of its ranks.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "muster/app/bench/comm_bench.h"

namespace muster::app {

std::string to_text(const CommBench& bench) {
  return nlohmann::json{{"operations", bench.operations},  {"sizes", bench.sizes},
                        {"dtype", to_string(bench.dtype)}, {"algorithm", bench.algorithm},
                        {"transport", bench.transport},    {"over_mpi", bench.over_mpi},
                        {"foreign", bench.foreign},        {"time_ns", bench.time.count()}}
      .dump();
}

Result<CommBench> comm_bench_from(std::string_view text) {
  try {
    const auto read = nlohmann::json::parse(text);
    const auto dtype = dtype_from_string(read.at("dtype").get<std::string>());
    if (!dtype) return fail(ErrorCode::kInvalid, "[bench/comm] no such dtype");
    return CommBench{.operations = read.at("operations").get<std::vector<Collective>>(),
                     .sizes = read.at("sizes").get<std::vector<std::uint64_t>>(),
                     .dtype = *dtype,
                     .algorithm = read.at("algorithm").get<comm::Algorithm>(),
                     .transport = read.at("transport").get<comm::NativeTransport>(),
                     .over_mpi = read.at("over_mpi").get<bool>(),
                     .foreign = read.at("foreign").get<bool>(),
                     .time = Duration{read.at("time_ns").get<std::int64_t>()}};
  } catch (const nlohmann::json::exception& fault) {
    return fail(ErrorCode::kInvalid,
                fmt::format("[bench/comm] cannot be read: {}; `muster bench comm` writes it",
                            fault.what()));
  }
}

}  // namespace muster::app
