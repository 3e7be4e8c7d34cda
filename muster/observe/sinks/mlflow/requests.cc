#include "muster/observe/sinks/mlflow/requests.h"

#include <fmt/format.h>

#include <cmath>

#include "muster/base/trimmed.h"
#include "muster/base/utf8.h"

namespace muster::observe::mlflow {
namespace {

constexpr std::string_view kApi = "/api/2.0/mlflow/";
constexpr std::string_view kStore = "mlflow-artifacts:/";  // what the server keeps itself
constexpr std::size_t kLongestSaying = 400;

std::int64_t milliseconds_of(WallTime time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

// What is no UTF-8, as a path may be, becomes U+FFFD.
std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

MlflowRequest post(std::string_view what, const Json& body) {
  return {"POST", fmt::format("{}{}", kApi, what), text_of(body)};
}

MlflowRequest get(std::string_view what) { return {"GET", fmt::format("{}{}", kApi, what)}; }

// RFC 3986: all but letters, digits and -._~ ; a path keeps its slashes.
std::string escaped(std::string_view text, bool is_path = false) {
  std::string safe;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~' || (is_path && c == '/');
    safe += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return safe;
}

std::string shortened(std::string_view text, std::size_t longest) {
  if (text.size() <= longest) return std::string(text);
  return std::string(utf8_front(text, longest - 3)) + "...";
}

Json entries(std::span<const MlflowEntry> all, std::size_t longest) {
  Json list = Json::array();
  for (const MlflowEntry& one : all)
    list.push_back({{"key", one.key}, {"value", shortened(one.value, longest)}});
  return list;
}

// As protocol buffers write what JSON has no number for.
Json number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

std::string_view status_of(RunState state) {
  switch (state) {
    case RunState::kRunning:
      return "RUNNING";
    case RunState::kFinished:
      return "FINISHED";
    case RunState::kStopped:
      return "KILLED";
    case RunState::kFailed:
      break;
  }
  return "FAILED";
}

// Of an error: the server's own words, on one line.
std::string saying_of(const MlflowAnswer& answer, const Json& json) {
  std::string said = json.is_object() && json.contains("message") && json["message"].is_string()
                         ? json["message"].get<std::string>()
                         : answer.body;
  for (char& c : said) {
    if (c == '\n' || c == '\r' || c == '\t') c = ' ';
  }
  return shortened(trimmed(said, " "), kLongestSaying);
}

std::string_view cure_for(int status) {
  switch (status) {
    case 401:
      return "; give MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or "
             "MLFLOW_TRACKING_TOKEN, or mlflow.token_file";
    case 403:
      return "; the account may not do this there, or the server is not told to answer to this "
             "name "
             "(mlflow server --allowed-hosts)";
    case 404:
    case 405:
      return "; mlflow.tracking_uri has to be the address of an MLflow server";
    default:
      return status >= 300 && status < 400 ? "; give mlflow.tracking_uri as the server has it" : "";
  }
}

}  // namespace

std::string as_param(std::string_view value) { return shortened(value, kLongestParam); }

MlflowRequest find_experiment(std::string_view name) {
  return get(fmt::format("experiments/get-by-name?experiment_name={}", escaped(name)));
}

MlflowRequest create_experiment(std::string_view name) {
  return post("experiments/create", {{"name", name}});
}

MlflowRequest find_run(std::string_view experiment_id, std::string_view id) {
  const char quote = id.find('\'') == id.npos ? '\'' : '"';
  return post("runs/search", {{"experiment_ids", Json::array({experiment_id})},
                              {"filter", fmt::format("tags.`muster.run` = {0}{1}{0}", quote, id)},
                              {"max_results", 1}});
}

MlflowRequest create_run(std::string_view experiment_id, const MlflowRun& run, WallTime start) {
  Json tags = entries(run.tags, kLongestTag);
  tags.push_back({{"key", "muster.run"}, {"value", run.id}});
  return post("runs/create", {{"experiment_id", experiment_id},
                              {"run_name", run.name},
                              {"start_time", milliseconds_of(start)},
                              {"tags", tags}});
}

MlflowRequest get_run(std::string_view run_id) {
  return get(fmt::format("runs/get?run_id={}", escaped(run_id)));
}

MlflowRequest log_params(std::string_view run_id, std::span<const MlflowEntry> params,
                         std::span<const MlflowEntry> tags) {
  return post("runs/log-batch", {{"run_id", run_id},
                                 {"params", entries(params, kLongestParam)},
                                 {"tags", entries(tags, kLongestTag)}});
}

MlflowRequest log_metrics(std::string_view run_id, std::span<const Metrics> rows) {
  Json list = Json::array();
  for (const Metrics& row : rows) {
    for (const Metric& metric : row.values) {
      list.push_back({{"key", metric.name},
                      {"value", number(metric.value)},
                      {"timestamp", milliseconds_of(row.time)},
                      {"step", to_int(row.step)}});
    }
  }
  return post("runs/log-batch", {{"run_id", run_id}, {"metrics", list}});
}

MlflowRequest set_running(std::string_view run_id) {
  return post("runs/update", {{"run_id", run_id}, {"status", status_of(RunState::kRunning)}});
}

MlflowRequest set_ended(std::string_view run_id, RunState state, WallTime end) {
  return post(
      "runs/update",
      {{"run_id", run_id}, {"status", status_of(state)}, {"end_time", milliseconds_of(end)}});
}

bool takes_artifacts(std::string_view artifact_uri) {
  return artifact_uri.starts_with(kStore) && !artifact_uri.substr(kStore.size()).starts_with("/");
}

MlflowRequest put_artifact(std::string_view artifact_uri, std::string_view name,
                           std::string bytes) {
  return {"PUT",
          fmt::format("/api/2.0/mlflow-artifacts/artifacts/{}/{}",
                      escaped(artifact_uri.substr(kStore.size()), true), escaped(name)),
          std::move(bytes), "application/octet-stream"};
}

Result<Json> read_answer(const MlflowAnswer& answer, std::string_view tracking_uri) {
  Json json = Json::parse(answer.body, nullptr, false);
  if (answer.status >= 200 && answer.status < 300) {
    if (answer.body.empty()) return Json::object();
    if (json.is_object()) return json;
    return fail(ErrorCode::kInvalid,
                fmt::format("[mlflow] {} answers with what is no JSON object: {}; it has to be an "
                            "MLflow server",
                            tracking_uri, saying_of(answer, json)));
  }
  const std::string told = fmt::format("[mlflow] {} answers with status {}: {}", tracking_uri,
                                       answer.status, saying_of(answer, json));
  if (answer.status >= 500 || answer.status == 429 || answer.status == 408)
    return fail(ErrorCode::kUnavailable, told);
  if (json.is_object() && json.value("error_code", Json()) == "RESOURCE_DOES_NOT_EXIST")
    return fail(ErrorCode::kNotFound, told);
  return fail(ErrorCode::kInvalid, told + std::string(cure_for(answer.status)));
}

}  // namespace muster::observe::mlflow
