#include "muster/observe/run_list.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/observe/record_value.h"

namespace muster::observe {
namespace {

constexpr int kDeepest = 4;  // runs/<job>.compare/<stamp>/<variant>/<stamp>

// "20261124T221836Z" as people read it; empty where it is none.
std::string day_and_time(std::string_view stamp) {
  constexpr std::string_view kShape = "00000000T000000Z";
  const auto fits = [](char shape, char c) {
    return shape == '0' ? c >= '0' && c <= '9' : shape == c;
  };
  if (!std::ranges::equal(kShape, stamp, fits)) return {};
  return fmt::format("{}-{}-{} {}:{}", stamp.substr(0, 4), stamp.substr(4, 2), stamp.substr(6, 2),
                     stamp.substr(9, 2), stamp.substr(11, 2));
}

void add_runs(Files& files, const Path& folder, int depth, std::vector<RunFolder>& found) {
  const auto names = files.list(folder);
  if (!names) return;
  for (const std::string& name : *names) {
    if (name == "latest" || name.starts_with('.')) continue;
    const Path path = folder / name;
    if (is_run(files, path)) {
      if (auto run = RunFolder::open(files, path)) found.push_back(std::move(*run));
    } else if (depth < kDeepest) {
      add_runs(files, path, depth + 1, found);
    }
  }
}

// As the launcher that saw it end has written it; nothing: it did not.
std::optional<RunState> recorded_state(Files& files, const RunFolder& folder) {
  const auto text = files.read(folder.summary());
  if (!text) return std::nullopt;
  const Value value = Value::parse(*text, nullptr, false);
  if (!value.is_object() || !value.contains("state") || !value["state"].is_string())
    return std::nullopt;
  const auto found =
      std::ranges::find_if(kRunStates, [name = value["state"].get<std::string>()](RunState state) {
        return to_string(state) == name;
      });
  if (found == std::end(kRunStates)) return std::nullopt;
  return *found;
}

RunState state_of(Files& files, const RunFolder& folder, const RunOutline& outline) {
  if (folder.launcher(files)) return RunState::kRunning;
  if (!outline.ended) return RunState::kFailed;
  if (outline.ended->completed) return RunState::kFinished;
  return recorded_state(files, folder).value_or(RunState::kFailed);
}

std::string reason_of(RunState state, const RunOutline& outline) {
  if (state == RunState::kRunning) return {};
  if (outline.ended) return outline.ended->reason;
  return outline.started || outline.last_step ? "no end was recorded" : "nothing was recorded";
}

}  // namespace

RunName name_of(const Path& root) {
  const Path whole = root.has_filename() ? root : root.parent_path();
  RunName name{whole.parent_path().filename().string(), whole.filename().string(), {}, {}};
  const auto dash = name.leaf.rfind('-');
  name.began = day_and_time(std::string_view(name.leaf).substr(0, dash));
  name.id = name.began.empty() || dash == name.leaf.npos ? name.leaf : name.leaf.substr(dash + 1);
  return name;
}

bool is_run(Files& files, const Path& folder) {
  return files.exists(folder / "resolved.yaml") || files.exists(folder / "metrics.jsonl");
}

std::vector<RunFolder> find_runs(Files& files, const Path& runs) {
  std::vector<RunFolder> found;
  add_runs(files, runs, 1, found);
  // Names begin with the time.
  std::ranges::stable_sort(found, std::greater<>(),
                           [](const RunFolder& run) { return run.root().filename(); });
  return found;
}

RunInfo look_at(Files& files, const RunFolder& folder) {
  RunInfo info;
  info.root = folder.root();
  info.name = name_of(folder.root());
  info.outline = read_outline(files.read(folder.metrics()).value_or(""));
  info.state = state_of(files, folder, info.outline);
  info.reason = reason_of(info.state, info.outline);
  return info;
}

}  // namespace muster::observe
