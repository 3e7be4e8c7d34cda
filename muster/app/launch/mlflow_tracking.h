#pragma once
// What a run's MLflow server is told of it, from the job and from where it runs.

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "muster/app/launch/mlflow_server.h"
#include "muster/job/load.h"
#include "muster/observe/run_folder.h"
#include "muster/observe/sinks/mlflow/mlflow.h"

namespace muster::app {

struct MlflowContext {
  std::map<std::string, std::string> environment = {};  // the launcher's
  std::string commit = {};                              // muster's
};

// The run as the server gets it: the resolved job's fields are its parameters.
observe::MlflowRun describe_for_mlflow(const job::Job& job, const observe::RunFolder& folder,
                                       const MlflowContext& context);

// The files that the server gets at the end: those of them that are there.
std::vector<Path> mlflow_artifacts(Files& files, const observe::RunFolder& folder);

// Empty, or why the account that the run shows can be read on its way.
std::string warning_of_open_secret(const job::MlflowSpec& spec, const MlflowAccess& access);

}  // namespace muster::app
