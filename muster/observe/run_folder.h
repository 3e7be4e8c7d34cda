#pragma once
// The folder of a run: runs/<name>/<UTC stamp>-<id>/ with everything that belongs to it, and
// runs/<name>/latest pointing at the newest. An immutable value; the files go through `Files`.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/files.h"
#include "muster/base/random.h"
#include "muster/base/result.h"
#include "muster/observe/environment.h"
#include "muster/observe/event.h"
#include "muster/observe/run_state.h"

namespace muster::observe {

// A new folder in `parent` that is named after the time; on the disk when this returns, with the
// folders above that were missing, or gone where it fails.
Result<Path> create_stamped_folder(Files& files, const Path& parent, WallTime now,
                                   Entropy& entropy);
// Makes `latest` beside `folder` point at it. Where it fails, `latest` is as it was, or `folder`
// might not outlive a power cut.
Status point_latest_at(Files& files, const Path& folder);

class RunFolder {
 public:
  // A new one, with the folders that runs write into and what `fill` puts there. Once that is whole
  // `latest` points at it, and it outlives a power cut. Where something fails before, `latest` is
  // as it was and nothing of the run is left.
  static Result<RunFolder> create(Files& files, const Path& runs, std::string_view name,
                                  WallTime now, Entropy& entropy,
                                  const std::function<Status(const RunFolder&)>& fill);
  // The newest run of `name` that has a checkpoint to go on from; a later one that failed at its
  // start does not stand in the way, and is told in `passed_over`. kNotFound, saying where it
  // looked, where there is none.
  static Result<RunFolder> newest_saved(Files& files, const Path& runs, std::string_view name,
                                        std::vector<Path>& passed_over);
  static Result<RunFolder> open(Files& files, const Path& root);  // an existing one

  const Path& root() const noexcept { return root_; }
  // A published one that has not been put away as ruined; whether it is whole, reading tells.
  bool has_checkpoint(Files& files) const;
  Path job() const { return root_ / "job.yaml"; }
  Path resolved_job() const { return root_ / "resolved.yaml"; }
  Path data() const { return root_ / "data.json"; }  // which it was: app/data/data_card.h
  Path environment() const { return root_ / "env.json"; }
  Path metrics() const { return root_ / "metrics.jsonl"; }
  Path ledger() const { return root_ / "ledger.jsonl"; }
  Path log(Rank rank) const;
  Path logs() const { return root_ / "logs"; }
  Path trace() const { return root_ / "trace"; }
  Path checkpoints() const { return root_ / "checkpoints"; }
  Path join_key() const { return root_ / "join.key"; }  // while workers may join from other hosts
  Path debug() const { return root_ / "debug.json"; }
  Path live() const { return root_ / "live.json"; }  // while it trains: see app/debug/live_report.h
  Path summary() const { return root_ / "summary.json"; }
  Path mlflow() const { return root_ / "mlflow.json"; }                 // which run it is there
  Path mlflow_unsent() const { return root_ / "mlflow-unsent.jsonl"; }  // what has yet to get there
  Path report() const { return root_ / "report.html"; }

  // While held no other launcher trains in this folder. kUnavailable: one does, or the lock cannot
  // be made; the message tells which.
  Result<std::unique_ptr<FileLock>> lock(Files& files) const;
  // The process that holds it; kNotFound where none does.
  Result<int> launcher(Files& files) const;

  Status write_environment(Files& files, const Environment& environment) const;
  Status write_summary(Files& files, const RunEnded& ended, RunState state) const;

 private:
  explicit RunFolder(Path root) : root_(std::move(root)) {}
  Status create_folders(Files& files) const;

  Path root_;
};

}  // namespace muster::observe
