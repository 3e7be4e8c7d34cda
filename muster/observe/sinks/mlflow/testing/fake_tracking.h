#pragma once
// A tracking server in memory, as far as muster asks one, that can be away, busy or unwilling. What
// it refuses is what MLflow 3.17 refuses. Thread-safe.

#include <fmt/format.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "muster/observe/sinks/mlflow/server.h"

namespace muster::testing {

class FakeTracking : public std::enable_shared_from_this<FakeTracking> {
 public:
  using Json = nlohmann::json;
  using Answer = observe::MlflowAnswer;
  enum class State { kUp, kAway, kBusy, kHangs, kDenies, kSomethingElse };
  struct Run {
    std::string id, name, experiment, status;
    std::map<std::string, std::string> params, tags, artifacts;
    std::vector<std::string> metrics;  // "train/loss 3 0.25 @1003"
  };

  std::unique_ptr<observe::MlflowServer> connect() {
    return std::make_unique<Line>(shared_from_this());
  }
  void set(State state) {
    with([&] { state_ = state; });
  }
  void delete_experiment(const std::string& name) {
    with([&] { experiments_[name] = "deleted"; });
  }
  void keep_artifacts_at(const std::string& uri) {
    with([&] { store_ = uri; });
  }
  void forget_runs() {
    with([&] { runs_.clear(); });
  }
  void lose_answers_of(const std::string& what, int times) {
    with([&] { lost_ = {what, times}; });
  }
  Run run() {  // the newest
    return with([&] { return runs_.empty() ? Run{} : runs_.back(); });
  }
  std::size_t runs() {
    return with([&] { return runs_.size(); });
  }
  std::size_t asked() {
    return with([&] { return asked_; });
  }
  std::size_t most_entries() {
    return with([&] { return most_entries_; });
  }

 private:
  class Line final : public observe::MlflowServer {
   public:
    explicit Line(std::shared_ptr<FakeTracking> to) : to_(std::move(to)) {}
    Result<Answer> ask(const observe::MlflowRequest& request) override {
      std::unique_lock lock(to_->mutex_);
      ++to_->asked_;
      to_->changed_.wait(lock, [&] { return stopped_ || to_->state_ != State::kHangs; });
      if (stopped_ || to_->state_ == State::kAway)
        return fail(ErrorCode::kUnavailable, "[mlflow] http://tracking: nobody answers there");
      Answer answer = to_->answer(request);
      auto& [what, times] = to_->lost_;
      if (times > 0 && request.path.ends_with(what)) {
        --times;
        return fail(ErrorCode::kUnavailable, "[mlflow] http://tracking: the connection broke");
      }
      return answer;
    }
    void stop() noexcept override {
      const std::lock_guard lock(to_->mutex_);
      stopped_ = true;
      to_->changed_.notify_all();
    }

   private:
    const std::shared_ptr<FakeTracking> to_;
    bool stopped_ = false;
  };

  template <class Do>
  std::invoke_result_t<Do> with(Do what) {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
    return what();
  }

  static Answer good(const Json& json) { return {200, json.dump()}; }
  static Answer refusal(int status, const std::string& code, const std::string& why) {
    return {status, Json{{"error_code", code}, {"message", why}}.dump()};
  }
  static Answer unknown() { return refusal(404, "RESOURCE_DOES_NOT_EXIST", "not found"); }

  Answer answer(const observe::MlflowRequest& request) {
    if (state_ == State::kBusy) return {503, "busy"};
    if (state_ == State::kDenies)
      return {401, "You are not authenticated. Please see the documentation.\n"};
    if (state_ == State::kSomethingElse) return {404, "<html>\nnot here"};
    const std::string store = "/api/2.0/mlflow-artifacts/artifacts/";
    if (request.path.starts_with(store)) {
      runs_.back().artifacts[request.path.substr(store.size())] = request.body;
      return {200, ""};
    }
    const std::string path = request.path.substr(std::string("/api/2.0/mlflow/").size());
    const std::string what = path.substr(0, path.find('?'));
    const std::string asked = path.substr(std::min(path.size(), path.find('=') + 1));
    const Json body = request.body.empty() ? Json() : Json::parse(request.body);
    if (what.starts_with("experiments/")) return answer_experiment(what, asked, body);
    if (what == "runs/create") return good({{"run", make_run(body)}});
    if (what == "runs/search") return answer_search(body);
    Run* const run = find(what == "runs/get" ? asked : body.at("run_id").get<std::string>());
    if (run == nullptr) return unknown();
    if (what == "runs/get") return good({{"run", shown(*run)}});
    if (what == "runs/update") {
      run->status = body.at("status");
      return good(Json::object());
    }
    return log(*run, body);
  }

  Answer answer_experiment(const std::string& what, const std::string& name, const Json& body) {
    if (what == "experiments/create") {
      newest_ = body.at("name");
      experiments_[newest_] = "active";
      return good({{"experiment_id", "7"}});
    }
    if (!experiments_.contains(name)) return unknown();
    newest_ = name;
    return good(
        {{"experiment", {{"experiment_id", "7"}, {"lifecycle_stage", experiments_.at(name)}}}});
  }

  Json make_run(const Json& body) {
    Run run;
    run.id = fmt::format("run-{}", ++made_);
    run.name = body.at("run_name");
    run.experiment = newest_;
    run.status = "RUNNING";
    for (const Json& tag : body.at("tags")) run.tags[tag.at("key")] = tag.at("value");
    runs_.push_back(run);
    return shown(run);
  }

  Answer answer_search(const Json& body) {
    Json found = Json::array();
    for (const Run& run : runs_) {
      const bool same =
          body.at("filter") == "tags.`muster.run` = '" + run.tags.at("muster.run") + "'";
      if (same && run.experiment == newest_) found.push_back(shown(run));
    }
    return found.empty() ? good(Json::object()) : good({{"runs", found}});
  }

  Json shown(const Run& run) const {
    Json params = Json::array();
    for (const auto& [key, value] : run.params) params.push_back({{"key", key}, {"value", value}});
    return {{"info",
             {{"run_id", run.id},
              {"experiment_id", "7"},
              {"lifecycle_stage", "active"},
              {"artifact_uri", fmt::format("{}/7/{}/artifacts", store_, run.id)}}},
            {"data", {{"params", params}}}};
  }

  Run* find(const std::string& id) {
    for (Run& run : runs_) {
      if (run.id == id) return &run;
    }
    return nullptr;
  }

  Answer log(Run& run, const Json& body) {
    const Json none = Json::array();
    const Json metrics = body.value("metrics", none);
    const Json params = body.value("params", none);
    most_entries_ = std::max({most_entries_, metrics.size(), params.size()});
    if (metrics.size() > 1000 || params.size() > 100)
      return refusal(400, "INVALID_PARAMETER_VALUE", "too many at once");
    for (const Json& one : params) {
      const auto [at, is_new] = run.params.try_emplace(one.at("key"), one.at("value"));
      if (!is_new && at->second != one.at("value").get<std::string>())
        return refusal(400, "INVALID_PARAMETER_VALUE", "Changing param values is not allowed.");
    }
    for (const Json& one : body.value("tags", none)) run.tags[one.at("key")] = one.at("value");
    for (const Json& one : metrics)
      run.metrics.push_back(fmt::format("{} {} {} @{}", one.at("key").get<std::string>(),
                                        one.at("step").dump(), one.at("value").dump(),
                                        one.at("timestamp").dump()));
    return good(Json::object());
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kUp;
  std::map<std::string, std::string> experiments_;  // their stage
  std::string newest_;                              // experiment, as it was looked up or made last
  std::string store_ = "mlflow-artifacts:";
  std::vector<Run> runs_;
  std::pair<std::string, int> lost_;
  std::size_t made_ = 0;
  std::size_t asked_ = 0;
  std::size_t most_entries_ = 0;
};

}  // namespace muster::testing
