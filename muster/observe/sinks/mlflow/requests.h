#pragma once
// Requests of MLflow's REST interface 2.0 (https://mlflow.org/docs/latest/rest-api.html), within
// its limits, and what its answers mean. Pure.

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/observe/sinks/mlflow/mlflow.h"

namespace muster::observe::mlflow {

using Json = nlohmann::json;

// Of one request: 1 MB, and so many entries; of one value, in bytes.
inline constexpr std::size_t kMetricsAtOnce = 1000;
inline constexpr std::size_t kParamsAtOnce = 100;
inline constexpr std::size_t kLongestParam = 6000;
inline constexpr std::size_t kLongestTag = 5000;

MlflowRequest find_experiment(std::string_view name);
MlflowRequest create_experiment(std::string_view name);
MlflowRequest find_run(std::string_view experiment_id, std::string_view id);
MlflowRequest create_run(std::string_view experiment_id, const MlflowRun& run, WallTime start);
MlflowRequest get_run(std::string_view run_id);
MlflowRequest log_params(std::string_view run_id, std::span<const MlflowEntry> params,
                         std::span<const MlflowEntry> tags);
MlflowRequest log_metrics(std::string_view run_id, std::span<const Metrics> rows);
MlflowRequest set_running(std::string_view run_id);
MlflowRequest set_ended(std::string_view run_id, RunState state, WallTime end);
std::string as_param(std::string_view value);  // as log_params() sends it
// Below an artifact_uri of the server's own store, `mlflow-artifacts:/…`.
MlflowRequest put_artifact(std::string_view artifact_uri, std::string_view name, std::string bytes);
bool takes_artifacts(std::string_view artifact_uri);

// The answer's JSON. kUnavailable: another time it may go well (5xx, 429); kNotFound: the server
// knows no such experiment or run; kInvalid: it will never go well, with the server's own words and
// what to do.
Result<Json> read_answer(const MlflowAnswer& answer, std::string_view tracking_uri);

}  // namespace muster::observe::mlflow
