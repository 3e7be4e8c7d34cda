#include "bench/sinks/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>

#include "muster/observe/record_json.h"
#include "muster/observe/run_folder.h"

namespace muster::bench {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kBegin = 5;           // steps that are not like the others
constexpr std::size_t kEnd = 1;             // likewise
constexpr std::size_t kFewest = 10;         // steps in between
constexpr std::int64_t kTracksTids = 1000;  // as sinks/trace numbers tracks and lanes

observe::Span span_of(const Json& event) {
  const Json& about = event.at("args");
  const std::int64_t tid = event.at("tid");
  observe::Span span;
  span.track = static_cast<observe::Track>(tid / kTracksTids);
  span.lane = static_cast<std::int32_t>(tid % kTracksTids);
  span.name = event.at("name");
  if (span.track == observe::Track::kSteps) span.name.resize(span.name.rfind(' '));
  span.detail = about.value("of", "");
  span.worker = event.at("pid").get<std::int32_t>() - 1;
  span.rank = Rank{about.at("rank").get<std::int32_t>()};
  span.step = Step{about.at("step").get<std::int64_t>()};
  span.generation = Generation{about.at("generation").get<std::uint64_t>()};
  if (about.contains("number")) span.number = about.at("number").get<std::uint64_t>();
  span.bytes = about.value("bytes", std::uint64_t{0});
  span.begin = TimePoint(std::chrono::microseconds(event.at("ts").get<std::int64_t>()));
  span.duration = std::chrono::microseconds(event.at("dur").get<std::int64_t>());
  return span;
}

using SpansOfSteps = std::map<Step, std::vector<observe::Span>>;

Result<SpansOfSteps> read_trace(Files& files, const Path& folder) {
  MUSTER_ASSIGN(const std::vector<std::string> names, files.list(folder));
  if (names.size() != 1)
    return fail(ErrorCode::kInvalid,
                fmt::format("[bench] {} holds {} traces, expected 1; record the run with --trace",
                            folder.native(), names.size()));
  MUSTER_ASSIGN(const std::string text, files.read(folder / names.front()));
  const Json events = Json::parse(text, nullptr, false);
  if (!events.is_array())
    return fail(ErrorCode::kInvalid, fmt::format("[bench] {} is no whole trace; let the run end",
                                                 (folder / names.front()).native()));
  SpansOfSteps spans;
  for (const Json& event : events) {
    if (event.at("ph") != "X") continue;
    observe::Span span = span_of(event);
    spans[span.step].push_back(std::move(span));
  }
  return spans;
}

Result<Recording> read_rows(Files& files, const Path& metrics) {
  MUSTER_ASSIGN(const std::string text, files.read(metrics));
  MUSTER_ASSIGN(const std::vector<observe::Record> records, observe::read_json_lines(text));
  Recording recording;
  for (const observe::Record& record : records) {
    if (const auto* started = std::get_if<observe::RunStarted>(&record))
      recording.started = *started;
    const auto* row = std::get_if<observe::Metrics>(&record);
    if (row != nullptr && !row->is_evaluation()) recording.steps.push_back({*row, {}});
  }
  auto& steps = recording.steps;
  if (steps.size() < kBegin + kFewest + kEnd)
    return fail(ErrorCode::kInvalid,
                fmt::format("[bench] {} has {} steps, expected {} or more", metrics.native(),
                            steps.size(), kBegin + kFewest + kEnd));
  steps.erase(steps.end() - kEnd, steps.end());
  steps.erase(steps.begin(), steps.begin() + kBegin);
  const Duration whole = steps.back().row.time - steps.front().row.time;
  recording.step_time = whole / static_cast<std::int64_t>(steps.size() - 1);
  return recording;
}

// Where a step stands in the endless run, against where it was recorded.
struct Shift {
  Step step;
  Duration later;
  std::uint64_t numbers;  // of operations
};

observe::Span shifted(observe::Span span, const Shift& shift, TimePoint began) {
  span.step = shift.step;
  span.begin += shift.later + began.time_since_epoch();
  if (span.number) *span.number += shift.numbers;
  return span;
}

observe::Metrics shifted(observe::Metrics row, const Shift& shift, std::int64_t batch) {
  row.step = shift.step;
  row.time += shift.later;
  row.samples_seen = to_int(shift.step) * batch;
  return row;
}

}  // namespace

Result<Recording> read_recording(Files& files, const Path& run) {
  MUSTER_ASSIGN(const observe::RunFolder folder, observe::RunFolder::open(files, run));
  MUSTER_ASSIGN(Recording recording, read_rows(files, folder.metrics()));
  MUSTER_ASSIGN(SpansOfSteps spans, read_trace(files, folder.trace()));
  for (RecordedStep& step : recording.steps) {
    step.spans = std::move(spans[step.row.step]);
    if (step.spans.empty())
      return fail(ErrorCode::kInvalid, fmt::format("[bench] the trace in {} lacks step {}",
                                                   run.native(), to_int(step.row.step)));
  }
  const TimePoint first =
      std::ranges::min(recording.steps.front().spans, {}, &observe::Span::begin).begin;
  for (RecordedStep& step : recording.steps) {
    for (observe::Span& span : step.spans) span.begin -= first.time_since_epoch();
  }
  return recording;
}

std::vector<Message> messages_of(const Recording& recording, std::int64_t index, TimePoint began) {
  constexpr std::uint64_t kNumbersOfAll = 1'000'000;  // more than operations were recorded
  const auto count = static_cast<std::int64_t>(recording.steps.size());
  const RecordedStep& step = recording.steps[static_cast<std::size_t>(index % count)];
  const Duration recorded_at = step.row.time - recording.steps.front().row.time;
  const Shift shift{Step{index + 1}, index * recording.step_time - recorded_at,
                    static_cast<std::uint64_t>(index / count) * kNumbersOfAll};
  const std::int64_t batch = recording.started.batch;
  std::vector<Message> messages;
  messages.push_back({observe::StepCommitted{.step = shift.step,
                                             .generation = Generation{1},
                                             .epoch = 0,
                                             .begin = index * batch,
                                             .end = (index + 1) * batch,
                                             .roll = 1'335'334'467'788'535}});
  messages.push_back({shifted(step.row, shift, batch)});
  std::map<std::int32_t, Message> of_workers;
  for (const observe::Span& span : step.spans)
    of_workers[span.worker].push_back(shifted(span, shift, began));
  for (auto& [worker, spans] : of_workers) messages.push_back(std::move(spans));
  return messages;
}

}  // namespace muster::bench
