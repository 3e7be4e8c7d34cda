#include "muster/app/launch/resume_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "muster/base/shell_words.h"
#include "muster/checkpoint/survey.h"
#include "muster/checkpoint/verify.h"

namespace muster::app {
namespace {

using nlohmann::json;

// Fields and sections that decide the order of the data, the sums, or the shape of the state.
constexpr std::string_view kFixed[] = {"seed",
                                       "model.",
                                       "lora.",
                                       "data.",
                                       "options.",
                                       "training.loss",
                                       "training.global_batch_size",
                                       "training.micro_batch_size",
                                       "training.gradient_accumulation_steps",
                                       "training.virtual_workers",
                                       "training.mode",
                                       "training.isa",
                                       "training.freeze",
                                       "optimizer.type",
                                       "ema.decay"};
// How the data is brought, not which; a run has its weights in its checkpoints.
constexpr std::string_view kFree[] = {"model.weights",         "data.path",
                                      "data.validation_path",  "data.loader_threads",
                                      "data.prefetch_batches", "data.cache"};
// Where and how it runs: no business of the weights, so not worth a line.
constexpr std::string_view kSurroundings[] = {
    "workers.", "communication.", "logging.",           "prometheus.", "mlflow.", "checkpoint.",
    "trace.",   "training.lanes", "training.recompute", "run_folder",  "name"};

template <std::size_t N>
bool listed(std::string_view field, const std::string_view (&names)[N]) {
  for (const std::string_view name : names) {
    if (name.ends_with('.') ? field.starts_with(name) : field == name) return true;
  }
  return false;
}

// Muster wrote it, so whatever is wrong with it is none of the job's mistakes.
Error damaged(const observe::RunFolder& folder, const Error& why) {
  return fail(
      ErrorCode::kCorrupt,
      fmt::format("[train/resume] {} does not say any more how the run was begun, so it cannot "
                  "go on; restore the file, or take the weights into a new run (muster "
                  "checkpoint export, model.weights): {}",
                  folder.resolved_job().string(), why.message));
}

}  // namespace

Result<std::vector<std::string>> check_resumable(Files& files, const observe::RunFolder& folder,
                                                 const job::Job& job) {
  const auto loaded = job::load_job(files, folder.resolved_job(), {.fields = job.fields});
  if (!loaded) return damaged(folder, loaded.error());
  const job::Job& before = *loaded;
  const json was = json::parse(job::to_json(before));
  const json is = json::parse(job::to_json(job));
  std::vector<std::string> broken;
  std::vector<std::string> changed;
  for (const auto& [field, entry] : is.items()) {
    const json old = was.value(field, json::object()).value("value", json());
    if (old == entry.at("value") || listed(field, kSurroundings)) continue;
    const std::string line =
        fmt::format("{}: {} -> {}", field, old.dump(), entry.at("value").dump());
    (listed(field, kFixed) && !listed(field, kFree) ? broken : changed).push_back(line);
  }
  if (broken.empty()) return changed;
  return fail(
      ErrorCode::kInvalid,
      fmt::format("[train/resume] {} was begun with other values of what must stay the same within "
                  "a run:\n  {}\ngive the old values, or start a new run without --resume",
                  folder.root().string(), fmt::join(broken, "\n  ")));
}

Status check_saved(Files& files, const observe::RunFolder& folder,
                   const job::WorkersSpec& workers) {
  const bool elsewhere = !workers.hosts.empty() || !workers.listen.empty();
  if (elsewhere || folder.has_checkpoint(files)) return ok();
  if (folder.launcher(files)) return ok();  // it may save yet; whoever locks it is told so
  return fail(ErrorCode::kNotFound,
              fmt::format("[train/resume] {} has no checkpoint: nothing was saved before it ended; "
                          "its job can only start again, as a new run: muster train {}",
                          folder.root().string(), shell_quoted(folder.job().string())));
}

bool has_whole_checkpoint(Files& files, const observe::RunFolder& folder) {
  const auto all = checkpoint::survey(files, folder.checkpoints());
  if (!all) return false;
  return std::any_of(all->rbegin(), all->rend(), [&](const checkpoint::Found& found) {
    const auto report = checkpoint::verify_checkpoint(files, found.folder);
    return report && report->whole();
  });
}

}  // namespace muster::app
