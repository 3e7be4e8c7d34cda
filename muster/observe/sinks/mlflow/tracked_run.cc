#include "muster/observe/sinks/mlflow/tracked_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace muster::observe::mlflow {
namespace {

std::optional<std::string> text_at(const Json& json, const char* pointer) {
  const Json::json_pointer at(pointer);
  if (!json.contains(at) || !json.at(at).is_string()) return std::nullopt;
  return json.at(at).get<std::string>();
}

std::map<std::string, std::string> params_of(const Json& run) {
  std::map<std::string, std::string> params;
  const Json::json_pointer at("/data/params");
  if (!run.contains(at) || !run.at(at).is_array()) return params;
  for (const Json& one : run.at(at)) {
    if (const auto key = text_at(one, "/key")) params[*key] = text_at(one, "/value").value_or("");
  }
  return params;
}

}  // namespace

TrackedRun::TrackedRun(MlflowServer& server, const MlflowRun& run, Files& files,
                       std::function<void(Severity, std::string)> tell)
    : server_(server), run_(run), files_(files), tell_(std::move(tell)), params_(run.params) {}

Result<Json> TrackedRun::ask(const MlflowRequest& request) {
  MUSTER_ASSIGN(const MlflowAnswer answer, server_.ask(request));
  return read_answer(answer, run_.tracking_uri);
}

Result<std::string> TrackedRun::required(const Json& answer, const char* pointer) const {
  if (auto text = text_at(answer, pointer)) return *std::move(text);
  return fail(ErrorCode::kInvalid,
              fmt::format("[mlflow] {} answers without {}; it has to be an MLflow server",
                          run_.tracking_uri, pointer));
}

std::string TrackedRun::page() const {
  return fmt::format("{}/#/experiments/{}/runs/{}", run_.tracking_uri, experiment_id_, run_id_);
}

// Empty where the run was never there, or on another server or in another experiment.
std::string TrackedRun::recorded() {
  const auto text = files_.read(run_.record);
  const Json json = text ? Json::parse(*text, nullptr, false) : Json();
  const bool same = text_at(json, "/tracking_uri") == run_.tracking_uri &&
                    text_at(json, "/experiment") == run_.experiment;
  return same ? text_at(json, "/run_id").value_or("") : "";
}

void TrackedRun::record() {
  const Json json = {{"tracking_uri", run_.tracking_uri},
                     {"experiment", run_.experiment},
                     {"experiment_id", experiment_id_},
                     {"run_id", run_id_}};
  const Status written = write_atomically(files_, run_.record, json.dump(2) + "\n");
  if (!written) tell_(Severity::kWarning, written.error().message);
}

Status TrackedRun::find_experiment() {
  auto found = ask(mlflow::find_experiment(run_.experiment));
  if (!found && found.error().code == ErrorCode::kNotFound) {
    const auto made = ask(create_experiment(run_.experiment));
    if (made) {
      MUSTER_ASSIGN(experiment_id_, required(*made, "/experiment_id"));
      return ok();
    }
    found = ask(mlflow::find_experiment(run_.experiment));  // others may have made it meanwhile
    if (!found) return made.error();
  }
  if (!found) return found.error();
  MUSTER_ASSIGN(const std::string id, required(*found, "/experiment/experiment_id"));
  MUSTER_ASSIGN(const std::string stage, required(*found, "/experiment/lifecycle_stage"));
  if (stage != "active")
    return fail(
        ErrorCode::kInvalid,
        fmt::format("[mlflow] mlflow.experiment: \"{}\" was deleted at {}; restore it there "
                    "(`mlflow experiments restore --experiment-id {}`) or give another name",
                    run_.experiment, run_.tracking_uri, id));
  experiment_id_ = id;
  return ok();
}

Status TrackedRun::find_or_make(WallTime start) {
  if (const std::string known = recorded(); !known.empty()) {
    const auto found = ask(get_run(known));
    if (found) return go_on_in(found->value("run", Json()));
    if (found.error().code != ErrorCode::kNotFound) return found.error();
    tell_(Severity::kWarning,
          fmt::format("[mlflow] {} no longer has run {}, in which this one began; it goes on in a "
                      "new one",
                      run_.tracking_uri, known));
  }
  MUSTER_TRY(find_experiment());
  // The answer to an earlier try may have been lost.
  MUSTER_ASSIGN(const Json same, ask(find_run(experiment_id_, run_.id)));
  const Json::json_pointer first("/runs/0");
  if (same.contains(first)) return go_on_in(same.at(first));
  MUSTER_ASSIGN(const Json made, ask(create_run(experiment_id_, run_, start)));
  MUSTER_ASSIGN(artifact_uri_, required(made, "/run/info/artifact_uri"));
  MUSTER_ASSIGN(run_id_, required(made, "/run/info/run_id"));
  return ok();
}

// What was told of a parameter there cannot be taken back, so what changed since is a tag.
Status TrackedRun::go_on_in(const Json& run) {
  MUSTER_ASSIGN(const std::string id, required(run, "/info/run_id"));
  MUSTER_ASSIGN(experiment_id_, required(run, "/info/experiment_id"));
  MUSTER_ASSIGN(const std::string stage, required(run, "/info/lifecycle_stage"));
  if (stage != "active")
    return fail(ErrorCode::kInvalid,
                fmt::format("[mlflow] run {} of this training was deleted at {}; restore it there "
                            "(`mlflow runs restore --run-id {}`), or remove {} and it goes on in a "
                            "new one",
                            id, run_.tracking_uri, id, run_.record.string()));
  MUSTER_TRY(ask(set_running(id)));
  const auto there = params_of(run);
  params_.clear();
  changes_.clear();
  for (const MlflowEntry& param : run_.params) {
    const auto same = there.find(param.key);
    if (same == there.end())
      params_.push_back(param);
    else if (same->second != as_param(param.value))
      changes_.push_back({"resumed." + param.key, param.value});
  }
  MUSTER_ASSIGN(artifact_uri_, required(run, "/info/artifact_uri"));
  run_id_ = id;
  return ok();
}

// A server of an older version may refuse what this one takes; the numbers matter more.
Status TrackedRun::send_params() {
  while (!params_.empty() || !changes_.empty()) {
    const std::size_t params = std::min(params_.size(), kParamsAtOnce);
    const std::size_t tags = std::min(changes_.size(), kParamsAtOnce);
    const auto sent =
        ask(log_params(run_id_, std::span(params_).first(params), std::span(changes_).first(tags)));
    if (!sent && sent.error().code == ErrorCode::kUnavailable) return sent.error();
    if (!sent)
      tell_(Severity::kWarning,
            fmt::format("{}; so its run there lacks {} parameters, which resolved.yaml has",
                        sent.error().message, params + tags));
    params_.erase(params_.begin(), params_.begin() + static_cast<std::ptrdiff_t>(params));
    changes_.erase(changes_.begin(), changes_.begin() + static_cast<std::ptrdiff_t>(tags));
  }
  has_params_ = true;
  return ok();
}

Status TrackedRun::begin(WallTime start) {
  if (run_id_.empty()) {
    MUSTER_TRY(find_or_make(start));
    record();
  }
  return send_params();
}

Status TrackedRun::send(std::span<const Metrics> rows) {
  MUSTER_TRY(ask(log_metrics(run_id_, rows)));
  return ok();
}

Status TrackedRun::put(const Path& file) {
  if (!takes_artifacts(artifact_uri_)) {
    if (!std::exchange(told_where_files_stay_, true))
      tell_(Severity::kNote,
            fmt::format("MLflow keeps this run's files at {}, which only its own clients write to; "
                        "they stay in {} (a server with --serve-artifacts takes them)",
                        artifact_uri_, file.parent_path().string()));
    return ok();
  }
  auto bytes = files_.read(file);
  if (!bytes) {
    tell_(Severity::kWarning, bytes.error().message + "; so MLflow does not get it");
    return ok();
  }
  MUSTER_TRY(ask(put_artifact(artifact_uri_, file.filename().string(), *std::move(bytes))));
  return ok();
}

Status TrackedRun::end(RunState state, WallTime at) {
  MUSTER_TRY(ask(set_ended(run_id_, state, at)));
  return ok();
}

}  // namespace muster::observe::mlflow
