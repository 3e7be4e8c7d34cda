#pragma once
// What a run measures, in a tracking server of MLflow's, by its REST interface
// (https://mlflow.org/docs/latest/rest-api.html): a run in an experiment, with parameters, metrics
// under the names that they have everywhere, files, and how it ended.
//
// Nothing waits for the server but finish(). While it is away numbers are kept, up to a limit, and
// sent in their order once it is back; beyond the limit every second step's go, and how many went
// is told. What the server refuses for good – an account, a deleted experiment – ends the sending,
// and is told once, in its own words. What it lacks at the end is kept, to be sent later.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/files.h"
#include "muster/observe/hub.h"
#include "muster/observe/run_state.h"
#include "muster/observe/sinks/mlflow/server.h"

namespace muster::observe {

struct MlflowEntry {  // a parameter or a tag
  std::string key;
  std::string value;
};

struct MlflowRun {
  std::string tracking_uri;  // without a slash at its end; for people, and for `record`
  std::string experiment;    // made where it is not there
  std::string name;
  std::string id;  // the folder's name: by it the run is found there again
  std::vector<MlflowEntry> params;
  std::vector<MlflowEntry> tags;
  Path record;  // mlflow.json: which run it is there, so that a resumed one goes on in it
  std::int64_t every = 1;  // of the steps' metrics those of every so many; evaluations' always
  // mlflow-unsent.jsonl: what the end could not send is kept there (unsent.h), and what an earlier
  // start of the run has left there is sent; empty: nowhere.
  Path unsent = {};
};

struct MlflowLimits {
  std::size_t kept = 200'000;                      // numbers that wait for the server
  Duration gather = std::chrono::seconds(1);       // between requests that are not full
  Duration first_pause = std::chrono::seconds(1);  // before another try; doubled each time
  Duration longest_pause = std::chrono::seconds(10);
  Duration patience = std::chrono::seconds(15);  // of finish(), with a server that takes nothing
};

// Thread-safe. take() notes what is to be sent; a thread of its own asks the server and calls
// `tell`, which must be thread-safe.
class MlflowSink : public Sink {
 public:
  // How the run ended, with files for the server: returns once all is there, or `at_most` has
  // passed, or the server has taken nothing for limits.patience; what it lacks then is kept in
  // MlflowRun::unsent and told. A run that never started is none of the server's.
  virtual void finish(RunState state, std::vector<Path> artifacts, Duration at_most) = 0;
};

std::shared_ptr<MlflowSink> create_mlflow_sink(std::unique_ptr<MlflowServer> server, MlflowRun run,
                                               Files& files, Clock& clock,
                                               std::function<void(Notice)> tell,
                                               const MlflowLimits& limits = {});

}  // namespace muster::observe
