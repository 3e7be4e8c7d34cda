#include "muster/observe/run_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "muster/observe/record_value.h"

namespace muster::observe {
namespace {

constexpr std::string_view kLatest = "latest";
constexpr std::string_view kLock = ".lock";

constexpr std::uint32_t kIds = 0x1000000;
constexpr std::uint32_t kApart = 0x1000;  // of runs that begin at once, each behind the same one

// Behind those of the same second, since the newest run is the last by name.
std::string stamped_name(Files& files, const Path& parent, WallTime now, Entropy& entropy) {
  const std::string stamp = format_utc(now, true) + "-";
  auto id = static_cast<std::uint32_t>(entropy.next() % kIds);
  const auto names = files.list(parent);
  for (const std::string& name : names ? *names : std::vector<std::string>()) {
    if (!name.starts_with(stamp)) continue;
    std::uint32_t other = 0;
    const char* const end = name.data() + name.size();
    std::from_chars(name.data() + stamp.size(), end, other, 16);
    if (id <= other)
      id = std::min(other + 1 + static_cast<std::uint32_t>(entropy.next() % kApart), kIds - 1);
  }
  return fmt::format("{}{:06x}", stamp, id);
}

// Those in which a name is missing on the way to `folder`, innermost first.
std::vector<Path> folders_that_change(Files& files, const Path& folder) {
  std::vector<Path> found;
  for (Path at = folder; !at.empty() && !files.exists(at); at = at.parent_path())
    found.push_back(at.has_parent_path() ? at.parent_path() : Path("."));
  return found;
}

Status create_durably(Files& files, const Path& folder) {
  const std::vector<Path> changed = folders_that_change(files, folder);
  MUSTER_TRY(files.create_folders(folder));
  // What is forced to the disk below is of no use where a power cut takes the way to it.
  for (const Path& each : changed) MUSTER_TRY(files.sync_folder(each));
  return ok();
}

Status link_latest(Files& files, const Path& folder) {
  return files.link(folder.filename(), folder.parent_path() / kLatest);
}

// `made`, and where it failed the folder is removed: half of one helps nobody.
Status whole_or_gone(Files& files, const Path& folder, Status made) {
  if (!made) static_cast<void>(files.remove_all(folder));
  return made;
}

}  // namespace

Result<Path> create_stamped_folder(Files& files, const Path& parent, WallTime now,
                                   Entropy& entropy) {
  Path folder = parent / stamped_name(files, parent, now, entropy);
  MUSTER_TRY(whole_or_gone(files, folder, create_durably(files, folder)));
  return folder;
}

Status point_latest_at(Files& files, const Path& folder) {
  MUSTER_TRY(link_latest(files, folder));
  return files.sync_folder(folder.parent_path());
}

Status RunFolder::create_folders(Files& files) const {
  MUSTER_TRY(files.create_folders(logs()));
  MUSTER_TRY(files.create_folders(checkpoints()));
  return files.sync_folder(root_);
}

Result<RunFolder> RunFolder::create(Files& files, const Path& runs, std::string_view name,
                                    WallTime now, Entropy& entropy,
                                    const std::function<Status(const RunFolder&)>& fill) {
  MUSTER_ASSIGN(Path root, create_stamped_folder(files, runs / name, now, entropy));
  RunFolder folder(std::move(root));
  Status made = folder.create_folders(files);
  if (made) made = fill(folder);
  if (made) made = link_latest(files, folder.root());
  MUSTER_TRY(whole_or_gone(files, folder.root(), std::move(made)));
  MUSTER_TRY(files.sync_folder(folder.root().parent_path()));
  return folder;
}

bool RunFolder::has_checkpoint(Files& files) const {
  const Result<std::vector<std::string>> saved = files.list(checkpoints());
  return saved && std::ranges::any_of(*saved, [&](const std::string& leaf) {
           return leaf.starts_with("step-") && files.exists(checkpoints() / leaf / "manifest.json");
         });
}

Result<RunFolder> RunFolder::newest_saved(Files& files, const Path& runs, std::string_view name,
                                          std::vector<Path>& passed_over) {
  const Path all = runs / name;
  const Result<std::vector<std::string>> names = files.list(all);
  if (names) {
    // Names begin with the time, so the last one is the newest.
    for (auto leaf = names->rbegin(); leaf != names->rend(); ++leaf) {
      if (*leaf == kLatest) continue;
      RunFolder run(all / *leaf);
      if (run.has_checkpoint(files)) return run;
      passed_over.push_back(run.root());
    }
  }
  return fail(
      ErrorCode::kNotFound,
      fmt::format(
          "[observe/run] no run of \"{}\" in {} has a checkpoint; start one without --resume", name,
          all.string()));
}

Result<RunFolder> RunFolder::open(Files& files, const Path& root) {
  if (files.exists(root)) return RunFolder(root);
  return fail(ErrorCode::kNotFound, fmt::format("[observe/run] no run in {}", root.string()));
}

Result<std::unique_ptr<FileLock>> RunFolder::lock(Files& files) const {
  auto lock = files.lock(root_ / kLock);
  if (!lock)
    return with_context(std::move(lock).error(),
                        fmt::format("[observe/run] {} cannot be locked", root_.string()));
  if (*lock) return lock;
  return fail(ErrorCode::kUnavailable,
              fmt::format("[observe/run] {}: another muster still trains there; wait for it to "
                          "end, or stop it",
                          root_.string()));
}

Result<int> RunFolder::launcher(Files& files) const {
  const auto gone = [&] {
    return fail(ErrorCode::kNotFound,
                fmt::format("[observe/run] nobody trains in {} now", root_.string()));
  };
  if (!files.exists(root_ / kLock)) return gone();
  // Another user's cannot be locked at all, and may be held.
  if (const auto lock = files.lock(root_ / kLock); lock && *lock) return gone();
  MUSTER_ASSIGN(const std::string text, files.read(root_ / kLock));
  int pid = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), pid);
  if (parsed.ec != std::errc()) return gone();
  return pid;
}

Path RunFolder::log(Rank rank) const { return logs() / fmt::format("rank-{}.log", to_int(rank)); }

Status RunFolder::write_environment(Files& files, const Environment& environment) const {
  return write_atomically(files, this->environment(), to_json(environment));
}

Status RunFolder::write_summary(Files& files, const RunEnded& ended, RunState state) const {
  Value value = to_value(ended);
  value["state"] = to_string(state);
  const std::string text = value.dump(2, ' ', false, Value::error_handler_t::replace) + "\n";
  return write_atomically(files, summary(), text);
}

}  // namespace muster::observe
