#pragma once
// The trainer's view of checkpoints: takes the strategy's state and the progress to the disk beside
// the training, and back. Every rank calls; on save the first one writes, to which the others send
// what only they hold. One thread.

#include <memory>
#include <optional>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/files.h"
#include "muster/base/ids.h"
#include "muster/base/result.h"
#include "muster/observe/hub.h"
#include "muster/parallel/strategy.h"
#include "muster/train/progress.h"

namespace muster::train {

struct CheckpointsOptions {
  Path folder;
  std::string job;     // its name, for the manifest
  bool writes = true;  // on the first rank only
  std::int64_t keep = 3;
  bool keeps_best = true;  // besides the newest ones, until a better one is saved
};

// What a state is worth.
struct SaveWorth {
  bool doubtful = false;  // it replaces none of the checkpoints from before
  bool proven = false;  // its loss is known; else the checkpoint before stays, whatever `keep` says
};

// A disk that takes longer than this for one checkpoint is as good as gone.
inline constexpr Duration kSavePatience = std::chrono::minutes(10);

class Checkpoints {
 public:
  // `files`, `hub` and `clock` outlive it. Written checkpoints are published to the hub.
  Checkpoints(CheckpointsOptions options, Files& files, observe::Hub& hub, Clock& clock);
  ~Checkpoints();

  void enter(Generation generation, bool writes);  // from a new generation on

  // Begins to save the state as it is now; no earlier save may be under way. The strategy must not
  // change it before wait_until_copied() has returned.
  Status save(const Progress& progress, parallel::Strategy& strategy, SaveWorth worth);
  Duration wait_until_copied();  // how long it had to wait

  Status check();  // the error of a save that failed in the background
  // Whether the last save is on the disk; waits for that, but no longer than `patience`. An error:
  // how it failed. `stands_still`: the training does so meanwhile, which is told of the save.
  Result<bool> done(Duration patience, bool stands_still = true);
  Status finish();  // waits until it is, kSavePatience at most
  // The disk hangs: a save under way is left to itself, so that the job can end. Says so.
  Error give_up();

  // Whether the checkpoint of that step, which another worker may have saved, is on the disk; of
  // one whose save this one has begun: yes, for it ends well or with an error. The disk is asked
  // beside the training, and waited for once, `patience` at most. Nothing: it has not answered yet.
  Result<std::optional<bool>> has(Step step, Duration patience);

  // Puts the checkpoint of this very state away, if there is one: its loss is no number, so nobody
  // should go on from it. Waits for a save under way, kSavePatience at most.
  void set_aside(Step step);

  // Loads the newest whole checkpoint, of that step at most, into the strategy. Torn or damaged
  // ones before it are skipped with a warning each; kNotFound where there is none.
  Result<Progress> resume(parallel::Strategy& strategy, std::optional<Step> at_most = {});
  // The step of the newest one, as far as sizes tell; none: there is none.
  Result<std::optional<Step>> newest();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::train
