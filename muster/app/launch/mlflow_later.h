#pragma once
// What the end of a run could not send to its MLflow server, sent when that is there again.

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "muster/base/files.h"
#include "muster/base/result.h"
#include "muster/job/fields.h"
#include "muster/observe/event.h"
#include "muster/observe/run_folder.h"
#include "muster/observe/sinks/mlflow/unsent.h"

namespace muster::app {

// With the account that `environment` and the run's job name; removes what has arrived. Blocks.
// None: nothing is left to send. kUnavailable: the server is away, or the run is in progress, whose
// launcher sends it; kInvalid: the server refuses it, or the account is none.
Result<std::optional<observe::mlflow::Delivered>> send_to_mlflow_later(
    const observe::RunFolder& folder, const job::FieldsPtr& fields,
    const std::map<std::string, std::string>& environment, Files& files,
    const std::function<void(observe::Severity, std::string)>& tell);

}  // namespace muster::app
