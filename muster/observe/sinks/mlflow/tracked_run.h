#pragma once
// A run as a tracking server has it: found or made there, then filled. One thread.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "muster/base/files.h"
#include "muster/observe/event.h"
#include "muster/observe/sinks/mlflow/requests.h"

namespace muster::observe::mlflow {

// Every call asks the server; after kUnavailable it is made again, and what is done is not done
// twice. Any other error is the server's last word.
class TrackedRun {
 public:
  // All of these outlive it.
  TrackedRun(MlflowServer& server, const MlflowRun& run, Files& files,
             std::function<void(Severity, std::string)> tell);

  // Makes the experiment and the run where they are not there, goes on in the one of `record` or of
  // the same id where it is, and tells its parameters.
  Status begin(WallTime start);
  bool has_begun() const noexcept { return has_params_; }
  Status send(std::span<const Metrics> rows);
  Status put(const Path& file);
  Status end(RunState state, WallTime at);

  std::string page() const;  // for a browser

 private:
  std::string recorded();  // the run that it was there at an earlier start
  void record();
  Status find_or_make(WallTime start);
  Status find_experiment();
  Status go_on_in(const Json& run);
  Status send_params();
  Result<Json> ask(const MlflowRequest& request);
  Result<std::string> required(const Json& answer, const char* pointer) const;

  MlflowServer& server_;
  const MlflowRun& run_;
  Files& files_;
  const std::function<void(Severity, std::string)> tell_;
  std::string experiment_id_;
  std::string run_id_;
  std::string artifact_uri_;
  std::vector<MlflowEntry> params_;   // that are not there yet
  std::vector<MlflowEntry> changes_;  // of those that are, for which it has tags
  bool has_params_ = false;
  bool told_where_files_stay_ = false;
};

}  // namespace muster::observe::mlflow
