#include "muster/app/bench/comm_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "muster/app/bench/timed_operation.h"
#include "muster/base/lowered.h"
#include "muster/base/text_width.h"
#include "muster/base/units.h"
#include "muster/observe/chart.h"

namespace muster::app {
namespace {

constexpr double kGiga = 1e9;
constexpr std::size_t kColumns = 80;  // rows come as they are measured, and fit any terminal
constexpr std::size_t kScheduleColumns = 18;  // what the other columns leave: "bidirectional_ring"

double microseconds(Duration duration) { return to_seconds(duration) * 1e6; }

std::string transport_of(const CommSetting& setting) {
  if (setting.over_mpi) return "MPI";
  return setting.memory ? "shared memory" : "TCP with TLS";
}

std::string transport_word(const CommSetting& setting) {
  if (setting.over_mpi) return "mpi";
  return setting.memory ? "shm" : "tcp";
}

std::string dtype_word(DType dtype) { return lowered(std::string(to_string(dtype))); }

std::string about(const CommSetting& setting, const CommBench& bench) {
  return fmt::format("{} rank{} on {} host{}, {}, {}, {} memory", setting.ranks,
                     setting.ranks == 1 ? "" : "s", setting.hosts, setting.hosts == 1 ? "" : "s",
                     transport_of(setting), dtype_word(bench.dtype),
                     bench.foreign ? "foreign" : "the engine's");
}

// Of the time that the operation took; what it would be at best.
double reached(const CommTiming& timing) {
  return to_seconds(timing.limit) / to_seconds(timing.median);
}

// No more than eight characters, below a day.
std::string short_time(Duration duration) {
  const double value = microseconds(duration);
  if (value < 999.95) return fmt::format("{:.1f} µs", value);
  if (value < 99'995) return fmt::format("{:.2f} ms", value / 1e3);
  return value < 999'950 ? fmt::format("{:.1f} ms", value / 1e3)
                         : fmt::format("{:.2f} s", value / 1e6);
}

// One that has two levels names them in a line of its own.
std::string schedule_cell(std::string_view schedule) {
  const auto blank = schedule.find(' ');
  if (schedule.size() <= kScheduleColumns || blank == std::string_view::npos)
    return std::string(schedule);
  return fmt::format("{}\n  {}", schedule.substr(0, blank), schedule.substr(blank + 1));
}

// Padded by characters: fmt counts a µ as one, as a terminal does.
std::string cells(std::string_view operation, std::string_view size, std::string_view median,
                  std::string_view late, std::string_view bus, std::string_view share,
                  std::string_view schedule) {
  return fmt::format("{:<14} {:>10} {:>8} {:>8} {:>8} {:>8} {}\n", operation, size, median, late,
                     bus, share, schedule_cell(schedule));
}

// What was not measured, as there is no such link, is null.
nlohmann::ordered_json to_json(const comm::LinkCosts& link, double per_message) {
  if (link.latency == 0) return nullptr;
  return {{"latency_us", comm::one_way(link, per_message) * 1e6},
          {"gb_s", 1 / (link.per_byte * kGiga)}};
}

observe::Series line(std::string name, int colour, bool faint) {
  return {.name = std::move(name), .points = {}, .colour = colour, .dots = !faint, .faint = faint};
}

}  // namespace

std::string table_head(const CommSetting& setting, const CommBench& bench) {
  const std::string links =
      setting.links ? fitted(fmt::format("links, as measured: {}", comm::describe(*setting.links)),
                             kColumns) +
                          "\n"
                    : "";
  return about(setting, bench) + "\n" + links + "\n" +
         cells("operation", "size", "p50", "p99", "bus GB/s", "of limit", "schedule");
}

std::string table_row(const CommTiming& timing, const CommSetting& setting) {
  return cells(
      to_string(timing.operation), format_bytes(timing.bytes), short_time(timing.median),
      short_time(timing.late), fmt::format("{:.3g}", bus_bandwidth(timing, setting.ranks) / kGiga),
      setting.ranks == 1 ? "-" : fmt::format("{:.0f} %", 100 * reached(timing)), timing.schedule);
}

std::string to_json(const CommReport& report, const CommBench& bench) {
  auto rows = nlohmann::ordered_json::array();
  for (const CommTiming& timing : report.timings) {
    nlohmann::ordered_json row = {
        {"operation", to_string(timing.operation)},
        {"bytes", timing.bytes},
        {"schedule", timing.schedule},
        {"repetitions", timing.repetitions},
        {"p50_us", microseconds(timing.median)},
        {"p99_us", microseconds(timing.late)},
        {"algorithm_bandwidth_gb_s", algorithm_bandwidth(timing) / kGiga},
        {"bus_bandwidth_gb_s", bus_bandwidth(timing, report.setting.ranks) / kGiga}};
    if (report.setting.ranks > 1) row["limit_us"] = microseconds(timing.limit);
    rows.push_back(std::move(row));
  }
  nlohmann::ordered_json all = {{"ranks", report.setting.ranks},
                                {"hosts", report.setting.hosts},
                                {"transport", transport_word(report.setting)},
                                {"dtype", dtype_word(bench.dtype)},
                                {"memory", bench.foreign ? "foreign" : "engine"},
                                {"limit", report.setting.memory ? "memory" : "link"},
                                {"timings", std::move(rows)}};
  if (const auto& links = report.setting.links)
    all["links"] = {{"between_hosts", to_json(links->between, links->per_message)},
                    {"inside_a_host", to_json(links->inside, links->per_message)}};
  return all.dump() + "\n";
}

std::string to_svg(const CommReport& report, const CommBench& bench) {
  observe::Chart chart{
      .title = "Bus bandwidth: " + about(report.setting, bench),
      .x_label = "size",
      .y_label = "GB/s",
      .series = {},
      .width = 720,
      .height = 340,
      .x_text = [](double x) { return format_bytes(static_cast<std::uint64_t>(std::exp2(x))); }};
  int colour = 0;
  for (const Collective operation : bench.operations) {
    observe::Series found = line(std::string(to_string(operation)), ++colour, false);
    observe::Series best = line(found.name + ", limit", colour, true);
    const double share = sent_share(operation, report.setting.ranks);
    for (const CommTiming& timing : report.timings) {
      if (timing.operation != operation) continue;
      const double x = std::log2(static_cast<double>(timing.bytes));
      found.points.push_back({x, bus_bandwidth(timing, report.setting.ranks) / kGiga});
      if (timing.limit > Duration{0})
        best.points.push_back(
            {x, static_cast<double>(timing.bytes) * share / to_seconds(timing.limit) / kGiga});
    }
    chart.series.push_back(std::move(best));
    chart.series.push_back(std::move(found));
  }
  return observe::render_line_chart_file(chart);
}

}  // namespace muster::app
