#include "muster/app/launch/mlflow_tracking.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/app/version/version.h"

namespace muster::app {
namespace {

std::string user_of(const std::map<std::string, std::string>& environment) {
  for (const char* name : {"USER", "LOGNAME"}) {
    if (const auto found = environment.find(name); found != environment.end()) return found->second;
  }
  return "";
}

bool is_loopback(std::string_view uri) {
  const std::string_view host = uri.substr(uri.find("://") + 3);
  return std::ranges::any_of(std::initializer_list<std::string_view>{"127.", "localhost", "[::1]"},
                             [host](std::string_view own) { return host.starts_with(own); });
}

}  // namespace

observe::MlflowRun describe_for_mlflow(const job::Job& job, const observe::RunFolder& folder,
                                       const MlflowContext& context) {
  const job::MlflowSpec& spec = job.spec.mlflow;
  const std::string id = folder.root().filename().string();
  observe::MlflowRun run;
  run.tracking_uri = spec.tracking_uri;
  run.experiment = spec.experiment;
  run.name = spec.run_name.empty() ? id : spec.run_name;
  run.id = id;
  run.record = folder.mlflow();
  run.unsent = folder.mlflow_unsent();
  run.every = spec.logging_steps;
  for (const auto& [field, value] : job::values_of(job)) run.params.push_back({field, value});
  run.tags = {{"mlflow.source.name", job.path.string()},
              {"mlflow.source.type", "LOCAL"},
              {"muster.job", job.spec.name},
              {"muster.run_folder", folder.root().string()},
              {"muster.version", std::string(version())},
              {"muster.commit", context.commit},
              {"muster.workers", std::to_string(job.spec.workers.processes())}};
  if (const std::string user = user_of(context.environment); !user.empty())
    run.tags.push_back({"mlflow.user", user});
  return run;
}

std::vector<Path> mlflow_artifacts(Files& files, const observe::RunFolder& folder) {
  std::vector<Path> there = {folder.job(),  folder.resolved_job(), folder.environment(),
                             folder.data(), folder.summary(),      folder.report()};
  std::erase_if(there, [&](const Path& path) { return !files.exists(path); });
  return there;
}

std::string warning_of_open_secret(const job::MlflowSpec& spec, const MlflowAccess& access) {
  if (!access.shows_secret() || !spec.tracking_uri.starts_with("http:") ||
      is_loopback(spec.tracking_uri))
    return "";
  return fmt::format("[mlflow] the account at {} can be read on the way there; https:// keeps it",
                     spec.tracking_uri);
}

}  // namespace muster::app
