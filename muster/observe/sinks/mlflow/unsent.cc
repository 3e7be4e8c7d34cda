#include "muster/observe/sinks/mlflow/unsent.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "muster/observe/record_json.h"
#include "muster/observe/sinks/mlflow/backlog.h"
#include "muster/observe/sinks/mlflow/requests.h"
#include "muster/observe/sinks/mlflow/tracked_run.h"

namespace muster::observe::mlflow {
namespace {

std::int64_t microseconds(WallTime time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
}

WallTime wall_time(const Json& json) {
  return WallTime(std::chrono::microseconds(json.get<std::int64_t>()));
}

Json pairs(const std::vector<MlflowEntry>& entries) {
  Json all = Json::array();
  for (const MlflowEntry& entry : entries) all.push_back({entry.key, entry.value});
  return all;
}

std::vector<MlflowEntry> entries_of(const Json& pairs) {
  std::vector<MlflowEntry> all;
  for (const Json& pair : pairs)
    all.push_back({pair.at(0).get<std::string>(), pair.at(1).get<std::string>()});
  return all;
}

Json to_json(const Ending& ending) {
  Json files = Json::array();
  for (const Path& file : ending.artifacts) files.push_back(file.filename().string());
  return {{"state", to_string(ending.state)}, {"at", microseconds(ending.at)}, {"files", files}};
}

Ending ending_of(const Json& json, const Path& folder) {
  const auto name = json.at("state").get<std::string>();
  const auto* state =
      std::ranges::find(kRunStates, name, [](RunState one) { return std::string(to_string(one)); });
  if (state == std::end(kRunStates)) throw std::out_of_range("state " + name);
  Ending ending{.state = *state, .artifacts = {}, .at = wall_time(json.at("at"))};
  for (const Json& file : json.at("files"))  // never of another folder
    ending.artifacts.push_back(folder / Path(file.get<std::string>()).filename());
  return ending;
}

std::string header(const Unsent& unsent) {
  const MlflowRun& run = unsent.run;
  Json json = {{"type", "mlflow_unsent"},
               {"tracking_uri", run.tracking_uri},
               {"experiment", run.experiment},
               {"name", run.name},
               {"id", run.id},
               {"start", microseconds(unsent.start)},
               {"params", pairs(run.params)},
               {"tags", pairs(run.tags)}};
  if (unsent.ending) json["ending"] = to_json(*unsent.ending);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Unsent from_header(const Json& json, const Path& folder) {
  Unsent unsent;
  json.at("tracking_uri").get_to(unsent.run.tracking_uri);
  json.at("experiment").get_to(unsent.run.experiment);
  json.at("name").get_to(unsent.run.name);
  json.at("id").get_to(unsent.run.id);
  unsent.run.params = entries_of(json.at("params"));
  unsent.run.tags = entries_of(json.at("tags"));
  unsent.start = wall_time(json.at("start"));
  if (json.contains("ending")) unsent.ending = ending_of(json.at("ending"), folder);
  return unsent;
}

Error damaged(const Path& file, std::string_view why) {
  return fail(ErrorCode::kCorrupt,
              fmt::format("[mlflow] {} is damaged: {}; metrics.jsonl beside it has all numbers",
                          file.string(), why));
}

Status put_files(TrackedRun& there, const Ending& ending,
                 const std::function<void(Severity, std::string)>& tell) {
  for (const Path& file : ending.artifacts) {
    const Status put = there.put(file);
    if (put) continue;
    if (put.error().code == ErrorCode::kUnavailable) return put;
    tell(Severity::kWarning, put.error().message + "; the run's folder has it");
  }
  return ok();
}

}  // namespace

Status write_unsent(Files& files, const Path& file, const Unsent& unsent) {
  std::string text = header(unsent) + "\n";
  for (const Metrics& row : unsent.rows) text += to_json_line(row) + "\n";
  return write_atomically(files, file, text);
}

Result<Unsent> read_unsent(Files& files, const Path& file) {
  MUSTER_ASSIGN(const std::string text, files.read(file));
  const std::size_t end = std::min(text.find('\n'), text.size());
  const Json first = Json::parse(std::string_view(text).substr(0, end), nullptr, false);
  Unsent unsent;
  try {
    unsent = from_header(first, file.parent_path());
  } catch (const std::exception& error) {
    return damaged(file, error.what());
  }
  auto records = read_json_lines(std::string_view(text).substr(std::min(end + 1, text.size())));
  if (!records) return damaged(file, records.error().message);
  for (Record& record : *records)
    if (auto* row = std::get_if<Metrics>(&record)) unsent.rows.push_back(std::move(*row));
  return unsent;
}

Result<Delivered> deliver(const Unsent& unsent, MlflowServer& server, Files& files,
                          const std::function<void(Severity, std::string)>& tell) {
  TrackedRun there(server, unsent.run, files, tell);
  MUSTER_TRY(there.begin(unsent.start));
  Backlog left(std::numeric_limits<std::size_t>::max());
  for (const Metrics& row : unsent.rows) left.add(row);
  const std::size_t numbers = left.numbers();
  while (!left.empty()) {
    const std::vector<Metrics> batch = left.take(kMetricsAtOnce);
    MUSTER_TRY(there.send(batch));
  }
  if (unsent.ending) {
    MUSTER_TRY(put_files(there, *unsent.ending, tell));
    MUSTER_TRY(there.end(unsent.ending->state, unsent.ending->at));
  }
  return Delivered{.numbers = numbers, .page = there.page()};
}

}  // namespace muster::observe::mlflow
