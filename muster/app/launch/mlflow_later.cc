#include "muster/app/launch/mlflow_later.h"

#include "muster/app/launch/mlflow_server.h"
#include "muster/app/launch/mlflow_tracking.h"
#include "muster/job/load.h"

namespace muster::app {

Result<std::optional<observe::mlflow::Delivered>> send_to_mlflow_later(
    const observe::RunFolder& folder, const job::FieldsPtr& fields,
    const std::map<std::string, std::string>& environment, Files& files,
    const std::function<void(observe::Severity, std::string)>& tell) {
  MUSTER_ASSIGN(const auto lock, folder.lock(files));
  auto left = observe::mlflow::read_unsent(files, folder.mlflow_unsent());
  if (!left && left.error().code == ErrorCode::kNotFound) return std::nullopt;
  if (!left) return left.error();
  left->run.record = folder.mlflow();
  MUSTER_ASSIGN(const job::Job job,
                job::load_job(files, folder.resolved_job(), {.fields = fields}));
  job::MlflowSpec spec = job.spec.mlflow;
  spec.tracking_uri = left->run.tracking_uri;
  MUSTER_ASSIGN(const MlflowAccess access, mlflow_access(spec, environment, files));
  if (const std::string warning = warning_of_open_secret(spec, access); !warning.empty())
    tell(observe::Severity::kWarning, warning);
  const auto server = open_mlflow_server(spec.tracking_uri, access);
  MUSTER_ASSIGN(auto delivered, observe::mlflow::deliver(*left, *server, files, tell));
  MUSTER_TRY(files.remove_all(folder.mlflow_unsent()));
  return std::optional(std::move(delivered));
}

}  // namespace muster::app
