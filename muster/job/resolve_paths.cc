#include <fmt/format.h>

#include <array>
#include <utility>

#include "muster/job/draft.h"

namespace muster::job {
namespace {

// A shell expands `~` at the start of a word only, so `--set run_folder=~/runs` and job files come
// with it: taken literally, it would name a folder that is asking to be removed with `rm -r ~`.
void expand_home(Draft& draft, std::string_view field, std::string& path) {
  if (path.empty() || path.front() != '~') return;
  const bool own = path.size() == 1 || path[1] == '/';
  if (own && !draft.home.empty()) {
    path.replace(0, 1, draft.home);
  } else {
    draft.complain({field}, fmt::format("{}: cannot tell whose home `{}` is in", field, path),
                   own ? "HOME is not set; write the path whole" : "write the path whole");
  }
}

}  // namespace

void resolve_paths(Draft& draft) {
  JobSpec& job = draft.spec;
  const std::array<std::pair<std::string_view, std::string*>, 13> paths = {
      {{"data.path", &job.data.path},
       {"data.validation_path", &job.data.validation_path},
       {"data.cache", &job.data.cache},
       {"optimizer.offload_folder", &job.optimizer.offload_folder},
       {"model.weights", &job.model.weights},
       {"preemption.file", &job.preemption.file},
       {"autoscaling.file", &job.autoscaling.file},
       {"prometheus.token_file", &job.prometheus.token_file},
       {"prometheus.certificate", &job.prometheus.certificate},
       {"prometheus.key", &job.prometheus.key},
       {"mlflow.token_file", &job.mlflow.token_file},
       {"mlflow.certificate", &job.mlflow.certificate},
       {"run_folder", &job.run_folder}}};
  for (const auto& [field, path] : paths) expand_home(draft, field, *path);
  if (job.run_folder.empty())
    draft.complain({"run_folder"}, "run_folder: expected a folder, found empty text",
                   "`.` is the one where muster is started");
}

}  // namespace muster::job
