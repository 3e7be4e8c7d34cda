#pragma once
// One more worker on this host, for a job whose launcher runs elsewhere.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "muster/base/exit_code.h"
#include "muster/base/files.h"
#include "muster/base/log.h"
#include "muster/base/process.h"
#include "muster/job/fields.h"
#include "muster/net/network.h"

namespace muster::app {

// What the launcher of a job gives to those who may join it.
struct Invitation {
  net::Address coordinator;
  std::string credentials;  // as its launcher wrote them
};

// What a launcher has besides for a worker of its own that it starts on this host.
struct Orders {
  Invitation invitation;
  std::int32_t worker = 0;        // its number
  std::int32_t local_worker = 0;  // which one on this host
  std::int32_t local_workers = 1;
  bool resumes = false;  // the run, from its checkpoint
  bool joins = false;    // those who train
  bool needs_run_folder = false;
  std::map<std::string, std::string> environment;  // of the worker, besides this process's
};

struct JoinOptions {
  // Asked before every try, for a launcher may come up, or be started again, later than its
  // workers. kNotFound: there is none yet.
  std::function<Result<Invitation>()> invitation;
  Path scratch;            // where a folder may be made that goes with the worker
  Path worker_program;     // muster-worker
  std::int32_t lanes = 0;  // threads that compute; 0: one for each core
  Duration join_timeout = std::chrono::seconds(60);  // how long a launcher is looked for
  std::function<void(std::string_view line)> tell;   // a person, on the loop's thread
  std::function<void(bool is_error, std::string_view line)> show;  // what the worker wrote, there
  job::FieldsPtr fields = job::muster_fields();                    // that the job may have
  std::optional<Orders> orders = {};
  std::optional<int> leash = {};  // see ProcessGroupSpec
};

// Blocks until the worker has ended: the training is over, or does without it. SIGINT and SIGTERM
// let it leave with the step; a second one kills it, and so does the end of its leash. An Error: it
// never came to be a worker: kUnavailable where no launcher was found in time; at once kInvalid
// where there is one that does not let it in.
Result<ExitCode> join_job(const JoinOptions& options, Processes& processes, Files& files,
                          const Logger& log);

}  // namespace muster::app
