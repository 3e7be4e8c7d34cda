#include <fmt/format.h>

#include "muster/job/draft.h"
#include "muster/job/path_fields.h"

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
  for (const PathField& field : path_fields()) expand_home(draft, field.name, field.of(job));
  if (job.run_folder.empty())
    draft.complain({"run_folder"}, "run_folder: expected a folder, found empty text",
                   "`.` is the one where muster is started");
}

}  // namespace muster::job
