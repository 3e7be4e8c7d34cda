// What the sinks of a run cost of a step: the steps of a recorded run are told to each by itself
// and to all of them, over and over, and the CPU time of the whole process is taken, so that every
// thread counts and a server elsewhere does not. Time runs HurriedClock::kHurry times as fast as in
// the run. What it costs to tell nobody is taken off. The console's lines come on standard output,
// and then one line of JSON with nanoseconds of a step. Every sink has taken every step, or the
// program fails. Usage: muster_bench_sinks FOLDER RUN TRACKING_URI

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/sinks/assembly.h"
#include "muster/base/pause.h"

namespace muster::bench {
namespace {

using Answer = nlohmann::ordered_json;
using Parts = std::span<const std::string_view>;

constexpr int kRounds = 5;
constexpr std::int64_t kSteps = 250;  // a round

std::int64_t cpu_nanoseconds() {
  timespec spent{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
  return spent.tv_sec * 1'000'000'000 + spent.tv_nsec;
}

// Nanoseconds of a step.
Result<double> time_with(Parts parts, const Path& folder, const Surroundings& around) {
  MUSTER_TRY(around.files.create_folders(folder));
  Assembly assembly(around, folder);
  for (const std::string_view part : parts) MUSTER_TRY(assembly.add(part));
  assembly.begin();
  const std::int64_t before = cpu_nanoseconds();
  for (std::int64_t index = 0; index < around.steps; ++index) {
    assembly.step(index);
    pause(around.clock, around.recording.step_time);
  }
  assembly.end();
  const std::int64_t spent = cpu_nanoseconds() - before;
  for (const std::string_view part : parts) MUSTER_TRY(check(part, assembly, around));
  return static_cast<double>(spent) / static_cast<double>(around.steps);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

Result<Answer> measure(const Path& folder, const Surroundings& around) {
  std::vector<std::pair<std::string, Parts>> settings = {{"nothing", {}}, {"all", kParts}};
  for (const std::string_view& part : kParts) settings.push_back({std::string(part), {&part, 1}});
  std::map<std::string, std::vector<double>> taken;
  for (int round = 0; round < kRounds; ++round) {
    for (const auto& [name, parts] : settings) {
      MUSTER_ASSIGN(const double spent,
                    time_with(parts, folder / fmt::format("{}-{}", name, round), around));
      taken[name].push_back(spent);
    }
  }
  const double nothing = median(taken["nothing"]);
  Answer costs;
  for (const auto& [name, parts] : settings) {
    if (!parts.empty()) costs[name] = median(taken[name]) - nothing;
  }
  return costs;
}

std::int64_t numbers_told(const Surroundings& around) {
  std::int64_t numbers = 0;
  for (std::int64_t index = 0; index < around.steps; ++index) {
    const auto& steps = around.recording.steps;
    numbers += std::ssize(steps[static_cast<std::size_t>(index) % steps.size()].row.values);
  }
  return numbers;
}

Status run(const Path& folder, const Path& recorded, const std::string& tracking_uri) {
  static HurriedClock clock;
  MUSTER_ASSIGN(const Recording recording, read_recording(system_files(), recorded));
  const Surroundings around{clock, system_files(), recording, tracking_uri, kSteps};
  MUSTER_ASSIGN(const Answer costs, measure(folder, around));
  constexpr int kRuns = 2 * kRounds;  // a sink by itself, and among all
  const Answer told{{"nanoseconds", costs},
                    {"runs", kRuns},
                    {"steps", kSteps},
                    {"numbers", kRuns * numbers_told(around)}};
  fmt::print("{}\n", told.dump());
  return ok();
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: {} FOLDER RUN TRACKING_URI\n", argv[0]);
    return 2;
  }
  try {
    const muster::Status done = muster::bench::run(argv[1], argv[2], argv[3]);
    if (!done) fmt::print(stderr, "{}\n", done.error().message);
    return done ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "[bench/sinks] {}\n", error.what());
    return 1;
  }
}
