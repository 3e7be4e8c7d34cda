#include "muster/observe/record_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <stdexcept>

#include "muster/base/units.h"

namespace muster::observe {
namespace {

constexpr double kMicro = 1e6;

// Throws std::out_of_range where nanoseconds cannot hold them.
Duration from_seconds(double seconds) {
  constexpr double kMost = 9.2e9;
  if (!(std::abs(seconds) < kMost)) throw std::out_of_range("a time of more than 290 years");
  return std::chrono::microseconds(std::llround(seconds * kMicro));
}

double number(const Value& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

// The library casts any number to the type asked for, also where a double does not fit.
template <std::integral T>
T whole(const Value& value) {
  if (!value.is_number_integer()) throw std::invalid_argument("no whole number: " + value.dump());
  return value.get<T>();
}

template <std::integral T>
void read_whole(const Value& value, std::string_view name, T& into) {
  into = whole<T>(value.at(name));
}

Step step_of(const Value& value) { return Step{whole<std::int64_t>(value.at("step"))}; }

Value values_of(const std::vector<Metric>& metrics) {
  Value value = Value::object();
  for (const Metric& metric : metrics) value[metric.name] = metric.value;
  return value;
}

Value value_of(const RunStarted& started) {
  return {{"type", "run_started"},
          {"name", started.name},
          {"headline", started.headline},
          {"libtorch", started.libtorch},
          {"run_folder", started.run_folder},
          {"workers", started.workers},
          {"slices", started.slices},
          {"parameters", started.parameters},
          {"first_step", to_int(started.first_step)},
          {"samples_seen", started.samples_seen},
          {"total_steps", started.total_steps},
          {"total_samples", started.total_samples},
          {"epochs", started.epochs},
          {"epoch_size", started.epoch_size},
          {"batch", started.batch}};
}

RunStarted run_started(const Value& value) {
  RunStarted started;
  value.at("name").get_to(started.name);
  value.at("headline").get_to(started.headline);
  value.at("libtorch").get_to(started.libtorch);
  value.at("run_folder").get_to(started.run_folder);
  read_whole(value, "workers", started.workers);
  read_whole(value, "slices", started.slices);
  read_whole(value, "parameters", started.parameters);
  started.first_step = Step{whole<std::int64_t>(value.at("first_step"))};
  read_whole(value, "samples_seen", started.samples_seen);
  read_whole(value, "total_steps", started.total_steps);
  read_whole(value, "total_samples", started.total_samples);
  value.at("epochs").get_to(started.epochs);
  if (value.contains("epoch_size")) {  // not in the oldest files
    read_whole(value, "epoch_size", started.epoch_size);
    read_whole(value, "batch", started.batch);
  }
  return started;
}

// Metrics lie flat among these keys, so that a line is easy to read into a table.
constexpr std::string_view kMetricsKeys[] = {"type", "step", "epoch", "samples_seen", "time"};

Value value_of(const Metrics& metrics) {
  Value value{{"type", "metrics"},
              {"step", to_int(metrics.step)},
              {"epoch", metrics.epoch},
              {"samples_seen", metrics.samples_seen},
              {"time", to_seconds(metrics.time.time_since_epoch())}};
  for (const Metric& metric : metrics.values) value[metric.name] = metric.value;
  return value;
}

Metrics metrics(const Value& value) {
  Metrics row;
  row.step = step_of(value);
  row.epoch = number(value.at("epoch"));
  read_whole(value, "samples_seen", row.samples_seen);
  row.time = WallTime(from_seconds(value.at("time").get<double>()));
  for (const auto& [name, item] : value.items()) {
    if (std::ranges::find(kMetricsKeys, name) != std::end(kMetricsKeys)) continue;
    row.values.push_back({name, number(item)});
  }
  return row;
}

// Many and often: in an array, without names.
Value value_of(const Span& span) {
  return {{"type", "span"},
          {"span",
           {static_cast<int>(span.track), span.lane, span.name, span.detail, span.worker,
            to_int(span.rank), to_int(span.step), to_int(span.generation),
            span.number ? Value(*span.number) : Value(), span.bytes,
            span.begin.time_since_epoch().count(), span.duration.count()}}};
}

Span span(const Value& value) {
  const Value& at = value.at("span");
  const auto track = whole<int>(at.at(0));
  if (track < 0 || track > static_cast<int>(Track::kCommunication))
    throw std::out_of_range("track");
  return {
      .track = static_cast<Track>(track),
      .lane = whole<std::int32_t>(at.at(1)),
      .name = at.at(2).get<std::string>(),
      .detail = at.at(3).get<std::string>(),
      .worker = whole<std::int32_t>(at.at(4)),
      .rank = Rank{whole<std::int32_t>(at.at(5))},
      .step = Step{whole<std::int64_t>(at.at(6))},
      .generation = Generation{whole<std::uint64_t>(at.at(7))},
      .number = at.at(8).is_null() ? std::nullopt : std::optional(whole<std::uint64_t>(at.at(8))),
      .bytes = whole<std::uint64_t>(at.at(9)),
      .begin = TimePoint(Duration(whole<std::int64_t>(at.at(10)))),
      .duration = Duration(whole<std::int64_t>(at.at(11)))};
}

Value value_of(const StepCommitted& committed) {
  return {{"type", "step_committed"},
          {"step", to_int(committed.step)},
          {"generation", to_int(committed.generation)},
          {"epoch", committed.epoch},
          {"begin", committed.begin},
          {"end", committed.end},
          {"roll", committed.roll}};
}

StepCommitted step_committed(const Value& value) {
  StepCommitted committed;
  committed.step = step_of(value);
  committed.generation = Generation{whole<std::uint64_t>(value.at("generation"))};
  read_whole(value, "epoch", committed.epoch);
  read_whole(value, "begin", committed.begin);
  read_whole(value, "end", committed.end);
  read_whole(value, "roll", committed.roll);
  return committed;
}

Value value_of(const WentBack& back) {
  return {{"type", "went_back"},
          {"step", to_int(back.to)},
          {"generation", to_int(back.generation)},
          {"from", to_int(back.from)},
          {"how", back.how},
          {"rollbacks", back.rollbacks}};
}

WentBack went_back(const Value& value) {
  return {step_of(value), Generation{whole<std::uint64_t>(value.at("generation"))},
          Step{whole<std::int64_t>(value.at("from"))}, value.at("how").get<std::string>(),
          whole<std::int64_t>(value.at("rollbacks"))};
}

Value value_of(const CheckpointWritten& checkpoint) {
  return {{"type", "checkpoint"},
          {"step", to_int(checkpoint.step)},
          {"path", checkpoint.path},
          {"bytes", checkpoint.bytes},
          {"stall_s", to_seconds(checkpoint.stall)},
          {"took_s", to_seconds(checkpoint.took)}};
}

CheckpointWritten checkpoint(const Value& value) {
  CheckpointWritten result;
  result.step = step_of(value);
  value.at("path").get_to(result.path);
  read_whole(value, "bytes", result.bytes);
  result.stall = from_seconds(value.at("stall_s").get<double>());
  result.took = from_seconds(value.at("took_s").get<double>());
  return result;
}

constexpr std::string_view kSeverities[] = {"note", "warning", "error"};

constexpr std::string_view kTurns[] = {"lost", "started", "stands", "entered", "went_back"};

Value value_of(const RecoveryPart& part) {
  Value value{{"turn", kTurns[static_cast<std::size_t>(part.turn)]}, {"workers", part.workers}};
  if (!part.brief.empty()) value["brief"] = part.brief;
  return value;
}

RecoveryPart recovery_part(const Value& value) {
  const auto& name = value.at("turn").get_ref<const std::string&>();
  const auto found = std::ranges::find(kTurns, name);
  if (found == std::end(kTurns)) throw std::invalid_argument("unknown turn " + name);
  RecoveryPart part{.turn = static_cast<RecoveryPart::Turn>(found - std::begin(kTurns)),
                    .workers = {},
                    .brief = value.value("brief", "")};
  for (const Value& worker : value.at("workers"))
    part.workers.push_back(whole<std::int32_t>(worker));
  return part;
}

Value value_of(const Notice& notice) {
  Value value{{"type", "notice"},
              {"severity", kSeverities[static_cast<std::size_t>(notice.severity)]},
              {"text", notice.text}};
  if (notice.recovery) value["recovery"] = value_of(*notice.recovery);
  return value;
}

Notice notice(const Value& value) {
  const auto& name = value.at("severity").get_ref<const std::string&>();
  const auto found = std::ranges::find(kSeverities, name);
  if (found == std::end(kSeverities)) throw std::invalid_argument("unknown severity " + name);
  Notice result{static_cast<Severity>(found - std::begin(kSeverities)),
                value.at("text").get<std::string>()};
  if (value.contains("recovery")) result.recovery = recovery_part(value.at("recovery"));
  return result;
}

Value value_of(const PathSummary& path) {
  Value shares = Value::array();
  for (const PathShare& share : path.shares) {
    Value one{{"what", share.what}, {"time_s", to_seconds(share.time)}};
    if (share.worker >= 0) one["worker"] = share.worker;
    shares.push_back(std::move(one));
  }
  return {{"steps", path.steps}, {"shares", std::move(shares)}};
}

PathSummary path_summary(const Value& value) {
  PathSummary path{.steps = whole<std::int64_t>(value.at("steps")), .shares = {}};
  for (const Value& share : value.at("shares"))
    path.shares.push_back({share.at("what").get<std::string>(),
                           share.contains("worker") ? whole<int>(share.at("worker")) : -1,
                           from_seconds(share.at("time_s").get<double>())});
  return path;
}

Value value_of(const RunEnded& ended) {
  Value value{{"type", "run_ended"},
              {"step", to_int(ended.step)},
              {"completed", ended.completed},
              {"reason", ended.reason},
              {"took_s", to_seconds(ended.took)},
              {"results", values_of(ended.results)}};
  if (ended.critical_path.steps > 0) value["critical_path"] = value_of(ended.critical_path);
  return value;
}

RunEnded run_ended(const Value& value) {
  RunEnded ended;
  ended.step = step_of(value);
  value.at("completed").get_to(ended.completed);
  value.at("reason").get_to(ended.reason);
  ended.took = from_seconds(value.at("took_s").get<double>());
  for (const auto& [name, item] : value.at("results").items()) {
    ended.results.push_back({name, number(item)});
  }
  if (value.contains("critical_path")) ended.critical_path = path_summary(value["critical_path"]);
  return ended;
}

Record record(const Value& value) {
  const auto& type = value.at("type").get_ref<const std::string&>();
  if (type == "metrics") return metrics(value);
  if (type == "span") return span(value);
  if (type == "step_committed") return step_committed(value);
  if (type == "went_back") return went_back(value);
  if (type == "run_started") return run_started(value);
  if (type == "checkpoint") return checkpoint(value);
  if (type == "notice") return notice(value);
  if (type == "run_ended") return run_ended(value);
  throw std::invalid_argument("unknown type " + type);
}

}  // namespace

Value to_value(const Record& record) {
  return std::visit([](const auto& one) { return value_of(one); }, record);
}

Result<Record> from_value(const Value& value) {
  try {
    return record(value);
  } catch (const std::exception& error) {  // of nlohmann and of the above
    return fail(ErrorCode::kCorrupt,
                fmt::format("[observe/record] not a record: {}", error.what()));
  }
}

}  // namespace muster::observe
