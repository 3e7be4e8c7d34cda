#include "muster/app/bench/comm_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "muster/base/text_width.h"

namespace muster::app {
namespace {

constexpr CommSetting kMemory{.ranks = 4, .hosts = 1, .memory = true};

CommTiming timing(std::uint64_t bytes, std::int64_t nanoseconds) {
  return {.operation = Collective::kAllReduce,
          .bytes = bytes,
          .schedule = "direct",
          .repetitions = 7,
          .median = Duration{nanoseconds},
          .late = Duration{2 * nanoseconds},
          .limit = Duration{nanoseconds / 4}};
}

TEST(CommReport, TheTableHasARowForEachTiming) {
  EXPECT_EQ(table_head(kMemory, {}),
            "4 ranks on 1 host, shared memory, f32, the engine's memory\n\n"
            "operation            size      p50      p99 bus GB/s of limit schedule\n");
  EXPECT_EQ(table_row(timing(1 << 20, 250'000), kMemory),
            "all_reduce        1.0 MiB 250.0 µs 500.0 µs     6.29     25 % direct\n");
}

// Of the longest name, numbers that just do not get another unit, and a schedule of two levels.
TEST(CommReport, NoLineIsWiderThanATerminal) {
  const comm::CostTable costs{.inside = {123.4e-6, 1e-9},
                              .between = {98'765.4e-6, 1e-9},
                              .per_message = 0,
                              .reduce_per_byte = 1e-10,
                              .copy_per_byte = 1e-10};
  const CommSetting setting{.ranks = 1024, .hosts = 512, .links = costs};
  CommBench bench;
  bench.dtype = DType::kBF16;
  std::string shown = table_head(setting, bench);
  for (const char* schedule :
       {"bidirectional_ring", "hierarchical (bidirectional_ring inside, halving_doubling between)"})
    for (const std::int64_t nanoseconds : {999'949, 999'951, 499'997'499, 499'997'501}) {
      CommTiming one = timing(1023 << 10, nanoseconds);
      one.operation = Collective::kReduceScatter;
      one.schedule = schedule;
      shown += table_row(one, setting);
    }
  std::istringstream lines(shown);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), 80U) << line;
  EXPECT_NE(shown.find(" hierarchical\n  (bidirectional_ring inside, halving_doubling between)\n"),
            std::string::npos)
      << shown;
}

TEST(CommReport, SaysThatItWasOverMpi) {
  const CommSetting mpi{.ranks = 2, .hosts = 2, .over_mpi = true};
  EXPECT_TRUE(table_head(mpi, {}).starts_with("2 ranks on 2 hosts, MPI, f32"))
      << table_head(mpi, {});
  EXPECT_EQ(nlohmann::json::parse(to_json({mpi, {}}, {})).at("transport"), "mpi");
}

// Over MPI the round trip may be all in what messages cost their senders and receivers.
TEST(CommReport, TheLatencyOfALinkIsThatOfAMessage) {
  const comm::CostTable costs{.inside = {1e-9, 1e-9},
                              .between = {},
                              .per_message = 2.5e-6,
                              .reduce_per_byte = 1e-10,
                              .copy_per_byte = 1e-10};
  const CommSetting mpi{.ranks = 2, .hosts = 1, .over_mpi = true, .links = costs};
  const std::string head = table_head(mpi, {});
  EXPECT_NE(head.find("links, as measured: 5.0 µs and "), std::string::npos) << head;
  const auto links = nlohmann::json::parse(to_json({mpi, {}}, {})).at("links");
  EXPECT_NEAR(links.at("inside_a_host").at("latency_us").get<double>(), 5.0, 0.01);
  EXPECT_TRUE(links.at("between_hosts").is_null());
}

TEST(CommReport, AWorldOfOneHasNoLimit) {
  const std::string row = table_row(timing(1024, 1'000), {.ranks = 1, .hosts = 1, .memory = true});
  EXPECT_TRUE(row.ends_with("        - direct\n")) << row;
}

TEST(CommReport, JsonHasNumbersInNamedUnits) {
  const auto json = nlohmann::json::parse(to_json({kMemory, {timing(1 << 20, 250'000)}}, {}));
  EXPECT_EQ(json.at("transport"), "shm");
  const auto& row = json.at("timings").at(0);
  EXPECT_EQ(row.at("p50_us"), 250.0);
  EXPECT_EQ(row.at("limit_us"), 62.5);
  EXPECT_NEAR(row.at("algorithm_bandwidth_gb_s").get<double>(), 4.194304, 1e-9);
  EXPECT_NEAR(row.at("bus_bandwidth_gb_s").get<double>(), 6.291456, 1e-9);
}

TEST(CommReport, ThePictureHasALineForEachOperationAndItsLimit) {
  const std::string svg = to_svg({kMemory, {timing(1 << 10, 4'000), timing(1 << 20, 250'000)}}, {});
  EXPECT_TRUE(svg.starts_with("<svg xmlns=")) << svg;
  for (const char* part : {"all_reduce</text>", "all_reduce, limit</text>", "1.0 KiB", "<path"})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
}

}  // namespace
}  // namespace muster::app
