#pragma once
// From a job file, the command line and the environment to a JobSpec. Precedence: flag > --set >
// MUSTER_* environment > quick (with --quick) > job file > default. Pure but for reading the file.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/files.h"
#include "muster/base/result.h"
#include "muster/job/diagnostic.h"
#include "muster/job/fields.h"
#include "muster/job/spec.h"

namespace muster::job {

// A command's own flag that stands for a field: {"--workers", "workers.count", "4"}.
struct FlagValue {
  std::string flag;
  std::string field;
  std::string value;
  // Of a word such as `auto`: the value it stands for in a job that has all its other values.
  std::function<std::string(const JobSpec&)> meaning = {};
  bool is_text = false;  // taken as it is, where the command line has always had it: no YAML
};

struct LoadOptions {
  std::vector<FlagValue> flags = {};
  std::vector<std::string> sets = {};  // "a.b=c"
  std::map<std::string, std::string> environment =
      {};  // the process's; only MUSTER_<FIELD> is read
  bool quick = false;
  // Fields, or sections (`strategy.`), that only flags set: what anybody else says of them is
  // checked by itself and passed over. For commands that try other values than the job's.
  std::vector<std::string> flags_only = {};
  FieldsPtr fields = muster_fields();  // those that the job may have
  // Who starts the workers in the launcher's stead, as "Slurm"; empty: nobody, and the job may name
  // hosts to start them on.
  std::string started_by = {};
};

// Where a value came from.
struct Origin {
  // In order of precedence.
  enum class Kind : std::uint8_t { kDefault, kDerived, kFile, kQuick, kEnvironment, kSet, kFlag };
  Kind kind = Kind::kDefault;
  int line = 0;            // of the job file, from 1, for kFile and kQuick
  std::string label = {};  // the flag, the variable, or how it was derived
};
std::string describe(const Origin& origin);  // "job file line 12", "--set", "default", …

struct Job {
  Path path;
  JobSpec spec;
  std::map<std::string, Origin> origins;             // by field name, every field
  std::map<std::string, Place, std::less<>> places;  // of those that somebody gave
  std::string text;                                  // the job file as it was read
  FieldsPtr fields = muster_fields();
};

// `job` where nothing is wrong; otherwise every error of the file, the options and the combination
// at once, in file order.
struct CheckedJob {
  std::optional<Job> job;
  std::vector<Diagnostic> errors;
};
CheckedJob check_job(std::string_view text, const Path& path, const LoadOptions& options);

// What is wrong with a job but only its worker finds – "[job] FIELD: …", or "…, but FIELD is …" –
// with the place where the field was given, the line and a caret. Any other message as it is.
std::string with_place(const Job& job, const std::string& message);

// check_job() with the errors as one message for a person (kInvalid): places, lines, carets,
// suggestions; or why the file cannot be read.
Result<Job> parse_job(std::string_view text, const Path& path, const LoadOptions& options);
Result<Job> load_job(Files& files, const Path& path, const LoadOptions& options);
Result<std::string> read_job_text(Files& files, const Path& path);

// Every field with its value as YAML that load_job() reads back to the same JobSpec
// (resolved.yaml); with_origins adds where each came from as a comment, which stands above its
// field where both are wider than `width` columns (0: they may be).
std::string to_yaml(const Job& job, bool with_origins, std::size_t width = 0);
// Every field of the job with its value, as to_yaml() shows it.
std::vector<std::pair<std::string, std::string>> values_of(const Job& job);
std::string to_json(const Job& job);  // {"field": {"value": …, "origin": "…"}}

}  // namespace muster::job
