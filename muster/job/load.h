#pragma once
// From a job file, the command line and the environment to a JobSpec. Precedence: flag > --set >
// MUSTER_* environment > quick (with --quick) > job file > default. Pure but for reading the file.

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/files.h"
#include "muster/base/result.h"
#include "muster/job/spec.h"

namespace muster::job {

struct LoadOptions {
  // A command's own flag that stands for a field: {"workers.count", "4"} for `--workers 4`.
  std::vector<std::pair<std::string, std::string>> flags;
  std::vector<std::string> sets;                   // "a.b=c"
  std::map<std::string, std::string> environment;  // the process's; only MUSTER_<FIELD> is read
  bool quick = false;
};

// Where a value came from.
struct Origin {
  enum class Kind : std::uint8_t { kDefault, kDerived, kFile, kQuick, kEnvironment, kSet, kFlag };
  Kind kind = Kind::kDefault;
  int line = 0;  // of the job file, from 1, for kFile and kQuick
  int column = 0;
  std::string variable;  // for kEnvironment
};
std::string describe(const Origin& origin);  // "job file line 12", "--set", "default", …

struct Job {
  JobSpec spec;
  std::map<std::string, Origin> origins;  // by field name, every field
  std::string text;                       // the job file as it was read
};

// Every error of the file, the options and the combination at once, in file order, in one message
// for a person: places, lines, carets, suggestions. kInvalid; or why the file cannot be read.
Result<Job> load_job(Files& files, const Path& path, const LoadOptions& options);
Result<Job> parse_job(std::string_view text, const Path& path, const LoadOptions& options);

// Every field with its value as YAML that load_job() reads back to the same JobSpec
// (resolved.yaml); with_origins adds where each came from as a comment.
std::string to_yaml(const Job& job, bool with_origins);
std::string to_json(const Job& job);  // {"field": {"value": …, "origin": "…"}}

}  // namespace muster::job
