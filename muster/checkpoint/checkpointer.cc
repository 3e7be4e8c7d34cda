#include "muster/checkpoint/checkpointer.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/checkpoint/best.h"
#include "muster/checkpoint/publish.h"
#include "muster/checkpoint/restore.h"
#include "muster/checkpoint/survey.h"

namespace muster::checkpoint {
namespace {

Error not_found(const Path& folder, const std::vector<Found>& all, Step step) {
  std::string why = "none was saved";
  for (const Found& found : all) {
    if (found.name.step == step) why = found.manifest.error().message;
  }
  return fail(ErrorCode::kNotFound,
              fmt::format("[checkpoint/load] no whole checkpoint of step {} in {}: {}; `muster "
                          "checkpoint list` shows what there is",
                          to_int(step), folder.native(), why));
}

Status load_model(Files& files, const Found& found, const std::vector<TensorSlice>& into) {
  const Manifest& manifest = *found.manifest;
  return restore(files, found.folder, manifest, manifest.model, into);
}

Loaded describe_loaded(const Found& found) {
  return {found.name.step, found.folder, found.manifest->state};
}

Result<Loaded> load_both(Files& files, const Found& found, const LoadTarget& into) {
  const Manifest& manifest = *found.manifest;
  MUSTER_TRY(check_same_tensors("model", manifest.model, into.model, into.some));
  MUSTER_TRY(check_same_tensors("optimizer", manifest.optimizer, into.optimizer, into.some));
  MUSTER_TRY(load_model(files, found, into.model));
  MUSTER_TRY(restore(files, found.folder, manifest, manifest.optimizer, into.optimizer));
  return describe_loaded(found);
}

// Whole checkpoints that count, ascending by step.
std::vector<Step> whole_steps(const std::vector<Found>& all) {
  std::vector<Step> steps;
  for (const Found& found : all) {
    if (found.manifest && (steps.empty() || steps.back() != found.name.step)) {
      steps.push_back(found.name.step);
    }
  }
  return steps;
}

bool is_torn(const Found& found) {
  return !found.manifest && found.manifest.error().code == ErrorCode::kNotFound;
}

// What retention removes after the save of step `own`: torn saves, attempts that a later one
// replaced, and whole ones beyond the newest `keep_last`. Damaged ones stay: only a person decides
// about those. So do torn ones of later steps: another may be writing them, who took over.
std::vector<const Found*> surplus(const std::vector<Found>& all, Step own, std::size_t keep_last,
                                  std::span<const Step> protect) {
  std::vector<Step> kept = whole_steps(all);
  if (keep_last > 0 && kept.size() > keep_last) {
    kept.erase(kept.begin(), kept.end() - static_cast<std::ptrdiff_t>(keep_last));
  }
  kept.insert(kept.end(), protect.begin(), protect.end());
  std::vector<const Found*> result;
  for (const Found& found : all) {
    const bool keeps = std::find(kept.begin(), kept.end(), found.name.step) != kept.end() &&
                       &found == last_whole(all, found.name.step);
    const bool torn = is_torn(found) && found.name.step <= own;
    if (torn || (found.manifest && !keeps)) result.push_back(&found);
  }
  return result;
}

// `before`: what was there when `own` was not.
std::vector<Step> protected_by(const SaveRequest& request, const Manifest& own,
                               std::vector<Found> before) {
  std::vector<Step> protect = request.protect;
  // The new one stays even where newer ones of another course lie beside it.
  protect.push_back(request.step);
  const std::vector<Step> earlier = whole_steps(before);
  if (request.protects_latest && !earlier.empty()) protect.push_back(earlier.back());
  if (!request.protects_best) return protect;
  before.push_back({{request.step}, {}, own});
  if (const Found* best = find_best(before, own.state)) protect.push_back(best->name.step);
  return protect;
}

}  // namespace

Checkpointer::Checkpointer(Files& files, const Clock& clock, Path folder, CheckpointOptions options)
    : files_(files),
      clock_(clock),
      folder_(folder.has_filename() ? std::move(folder) : folder.parent_path()),
      options_(std::move(options)) {}

Result<SavedCheckpoint> Checkpointer::save(const SaveRequest& request) {
  const TimePoint start = clock_.now();
  auto before = survey(files_, folder_);
  if (!before)
    return with_context(before.error(),
                        fmt::format("[checkpoint/save] step {} was not saved, for the folder of "
                                    "checkpoints cannot be read; put it back where it was",
                                    to_int(request.step)));
  std::vector<Found> all = std::move(*before);
  const Path at = fresh_folder(all, request.step);
  const auto manifest = write(request, at);
  if (!manifest) {
    // Frees the disk, which may be full; nothing more to be done where that fails too.
    static_cast<void>(unpublish(files_, at));
    return with_context(
        manifest.error(),
        fmt::format("[checkpoint/save] step {} was not saved, {}", to_int(request.step),
                    whole_steps(all).empty() ? "and there is no earlier checkpoint"
                                             : "earlier checkpoints are intact"));
  }
  SavedCheckpoint saved{request.step, at, manifest->bytes(), {}, {}, {}};
  if (request.retires_others) {
    auto removed = prune(request.step, protected_by(request, *manifest, std::move(all)));
    if (removed) saved.removed = std::move(*removed);
    if (!removed) saved.retention_failed = removed.error();
  }
  saved.took = clock_.now() - start;
  return saved;
}

Result<Manifest> Checkpointer::write(const SaveRequest& request, const Path& at) {
  MUSTER_TRY(files_.create_folders(at));
  MUSTER_TRY(files_.sync_folder(folder_));
  const Path parent = folder_.parent_path();
  MUSTER_TRY(files_.sync_folder(parent.empty() ? Path(".") : parent));
  return publish(files_, at, request, options_, format_utc(clock_.wall()));
}

Path Checkpointer::fresh_folder(const std::vector<Found>& all, Step step) {
  FolderName name{step, 0};
  for (const Found& found : all) {
    if (found.name.step == step) name.attempt = std::max(name.attempt, found.name.attempt + 1);
  }
  while (!used_.insert(folder_ / to_string(name)).second) ++name.attempt;
  return folder_ / to_string(name);
}

Result<std::vector<Step>> Checkpointer::complete_steps() {
  MUSTER_ASSIGN(const auto all, survey(files_, folder_));
  return whole_steps(all);
}

Result<std::optional<Step>> Checkpointer::latest() {
  MUSTER_ASSIGN(const auto steps, complete_steps());
  return steps.empty() ? std::nullopt : std::optional(steps.back());
}

Result<Path> Checkpointer::set_aside(Step step) {
  MUSTER_ASSIGN(const Path from, folder_of(step));
  const std::string name = "ruined-" + from.filename().string();
  Path to = from.parent_path() / name;
  for (int again = 2; files_.exists(to); ++again)  // it was ruined there before
    to = from.parent_path() / fmt::format("{}-{}", name, again);
  MUSTER_TRY(files_.rename(from, to));
  MUSTER_TRY(files_.sync_folder(from.parent_path()));
  return to;
}

Result<Path> Checkpointer::folder_of(Step step) {
  MUSTER_ASSIGN(const auto all, survey(files_, folder_));
  const Found* found = last_whole(all, step);
  if (found == nullptr) return not_found(folder_, all, step);
  return found->folder;
}

Result<Loaded> Checkpointer::load(Step step, const LoadTarget& into) {
  MUSTER_ASSIGN(const auto all, survey(files_, folder_));
  const Found* found = last_whole(all, step);
  if (found == nullptr) return not_found(folder_, all, step);
  return load_both(files_, *found, into);
}

Result<Loaded> Checkpointer::load_weights(Step step, const std::vector<NamedTensor>& model) {
  MUSTER_ASSIGN(const auto all, survey(files_, folder_));
  const Found* found = last_whole(all, step);
  if (found == nullptr) return not_found(folder_, all, step);
  const std::vector<TensorSlice> whole = whole_slices(model);
  MUSTER_TRY(check_same_tensors("model", found->manifest->model, whole));
  MUSTER_TRY(load_model(files_, *found, whole));
  return describe_loaded(*found);
}

Result<LoadedNewest> Checkpointer::load_newest_whole(const LoadTarget& into,
                                                     std::optional<Step> at_most) {
  MUSTER_ASSIGN(const auto all, survey(files_, folder_));
  std::vector<Skipped> skipped;
  for (auto found = all.rbegin(); found != all.rend(); ++found) {
    if (at_most && found->name.step > *at_most) continue;
    const auto loaded =
        found->manifest ? load_both(files_, *found, into) : Result<Loaded>(found->manifest.error());
    if (loaded) return LoadedNewest{*loaded, std::move(skipped)};
    const ErrorCode code = loaded.error().code;
    if (code == ErrorCode::kInvalid || code == ErrorCode::kUnsupported) return loaded.error();
    skipped.push_back({found->folder, loaded.error()});
  }
  return fail(ErrorCode::kNotFound,
              fmt::format("[checkpoint/load] no whole checkpoint in {}{}", folder_.native(),
                          skipped.empty() ? std::string()
                                          : fmt::format(", {} that cannot be read, the newest: {}",
                                                        skipped.size(), skipped[0].why.message)));
}

Result<std::vector<Step>> Checkpointer::prune(Step own, std::span<const Step> protect) {
  MUSTER_ASSIGN(const auto all, survey(files_, folder_));
  std::vector<Step> removed;
  const auto unwanted = surplus(all, own, options_.keep_last, protect);
  for (const Found* found : unwanted) {
    MUSTER_TRY(unpublish(files_, found->folder));
    if (found->manifest) removed.push_back(found->name.step);
  }
  if (!unwanted.empty()) MUSTER_TRY(files_.sync_folder(folder_));
  return removed;
}

}  // namespace muster::checkpoint
