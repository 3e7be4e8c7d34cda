#pragma once
// A tracking server of MLflow's over http or https, and what the user's account there is.

#include <map>
#include <memory>
#include <string>

#include "muster/base/files.h"
#include "muster/base/result.h"
#include "muster/job/spec.h"
#include "muster/observe/sinks/mlflow/server.h"

namespace muster::app {

// Of the variables that MLflow's own clients read (MLFLOW_TRACKING_…), and of the job's files.
// Never of the job file itself, which the run's folder keeps.
struct MlflowAccess {
  std::string token = {};  // else user and password; else nothing is shown
  std::string user = {};
  std::string password = {};
  std::string certificate = {};  // a file with those of authorities; empty: the system's

  bool shows_secret() const noexcept { return !token.empty() || !user.empty(); }
};

// kInvalid: half of an account, or an empty token; kNotFound: a file that is not there.
Result<MlflowAccess> mlflow_access(const job::MlflowSpec& spec,
                                   const std::map<std::string, std::string>& environment,
                                   Files& files);

// `uri` as a job has it once resolved.
std::unique_ptr<observe::MlflowServer> open_mlflow_server(const std::string& uri,
                                                          const MlflowAccess& access);

}  // namespace muster::app
