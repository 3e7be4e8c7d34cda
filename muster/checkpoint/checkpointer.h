#pragma once
// Checkpoints of one run: <folder>/step-00000500/{manifest.json, model.safetensors,
// optimizer.safetensors}. A checkpoint is whole or absent: its files are on the disk before its
// manifest appears under its name. A name is never used twice: when step 500 is saved again (after
// a torn save, or on another course after a resume), it goes to step-00000500.1, and the highest
// one counts.

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/files.h"
#include "muster/base/ids.h"
#include "muster/base/result.h"
#include "muster/base/tensor_slice.h"
#include "muster/base/tensor_view.h"
#include "muster/checkpoint/manifest.h"

namespace muster::checkpoint {

struct Found;  // survey.h

struct CheckpointOptions {
  std::string job = {};
  std::size_t keep_last = 3;                              // whole ones; 0 keeps all
  std::uint64_t max_file_bytes = std::uint64_t{4} << 30;  // more is cut at tensors' borders
};

struct SaveRequest {
  Step step{0};
  Generation generation{0};
  std::vector<NamedTensor> model = {},
                           optimizer = {};  // names unique within each; whole, on the CPU
  std::string state = "{}";                 // JSON object, given back by load()
  std::vector<Step> protect = {};           // kept whatever keep_last says
  bool protects_latest = false;             // so is the newest one from before it,
  bool protects_best = false;               // and the best one, going by `state` (best.h)
  bool retires_others = true;               // false: retention waits for the next save
};

struct SavedCheckpoint {
  Step step{0};
  Path folder;
  std::uint64_t bytes = 0;
  Duration took{};
  std::vector<Step> removed;              // by retention
  std::optional<Error> retention_failed;  // the checkpoint itself is whole
};

// Where load() puts what it reads: exactly the tensors of the checkpoint, same dtypes and shapes,
// or parts of them. `some`: other ranks hold the rest, so tensors may be missing.
struct LoadTarget {
  std::vector<TensorSlice> model, optimizer;
  bool some = false;
};

struct Loaded {
  Step step{0};
  Path folder;
  std::string state;  // JSON object
};

struct Skipped {
  Path folder;
  Error why;
};

struct LoadedNewest {
  Loaded loaded;
  std::vector<Skipped> skipped;  // newer ones that could not be read, newest first
};

// Thread-safe, but for one save at a time.
class Checkpointer {
 public:
  // `folder`: <run>/checkpoints; made on the first save.
  Checkpointer(Files& files, const Clock& clock, Path folder, CheckpointOptions options = {});

  // Writes, publishes, then removes what retention no longer keeps, if asked. An error names the
  // path; the checkpoints that were there still are.
  Result<SavedCheckpoint> save(const SaveRequest& request);

  // Steps with a readable manifest and files of the right sizes, ascending. Content is not read.
  Result<std::vector<Step>> complete_steps();
  Result<std::optional<Step>> latest();

  // Reads one checkpoint, every byte checked against its hash. kNotFound where there is none of
  // this step; kInvalid where names, dtypes or shapes differ from `into`, which is untouched then;
  // kCorrupt for damage, after which `into` holds nothing of use.
  Result<Loaded> load(Step step, const LoadTarget& into);
  Result<Loaded> load_weights(Step step,
                              const std::vector<NamedTensor>& model);  // without the optimizer

  // The newest one that is whole, of `at_most` at most; says which newer ones of those it passed
  // over, and why. kNotFound: none.
  Result<LoadedNewest> load_newest_whole(const LoadTarget& into, std::optional<Step> at_most = {});

  // Removes all whole checkpoints but the newest `keep_last` (0: keeps all, 1 at least) and
  // `protect`, and torn ones up to step `own`: later ones may be another's that is under way. A
  // crash in the middle leaves whole ones and torn ones, no lies. Not while an own save is.
  Result<std::vector<Step>> prune(Step own, std::span<const Step> protect);

  // Puts away a checkpoint that nobody should go on from, under "ruined-<its name>", where no other
  // function finds it. kNotFound where there is none of this step. Not while a save is under way.
  Result<Path> set_aside(Step step);

  // The folder of `step`'s checkpoint. kNotFound where there is none.
  Result<Path> folder_of(Step step);
  const Path& folder() const noexcept { return folder_; }

 private:
  Path fresh_folder(const std::vector<Found>& all, Step step);
  Result<Manifest> write(const SaveRequest& request, const Path& at);

  Files& files_;
  const Clock& clock_;
  const Path folder_;
  const CheckpointOptions options_;
  std::set<Path> used_;  // folders of failed saves, removed or not; touched by save() only
};

}  // namespace muster::checkpoint
