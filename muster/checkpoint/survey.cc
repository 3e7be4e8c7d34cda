#include "muster/checkpoint/survey.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/number.h"

namespace muster::checkpoint {
namespace {

constexpr std::string_view kPrefix = "step-";

template <class T>
std::optional<T> whole_number(std::string_view text) {
  const auto value = number_from<T>(text);
  return value && *value >= 0 ? value : std::nullopt;
}

}  // namespace

std::string to_string(const FolderName& name) {
  const std::string text = fmt::format("{}{:08}", kPrefix, to_int(name.step));
  return name.attempt == 0 ? text : fmt::format("{}.{}", text, name.attempt);
}

std::optional<FolderName> folder_name_from_string(std::string_view text) {
  if (!text.starts_with(kPrefix)) return std::nullopt;
  const std::string_view rest = text.substr(kPrefix.size());
  const std::size_t dot = rest.find('.');
  const auto step = whole_number<std::int64_t>(rest.substr(0, dot));
  const auto attempt = dot == rest.npos ? 0 : whole_number<int>(rest.substr(dot + 1));
  if (!step || !attempt) return std::nullopt;
  const FolderName name{Step{*step}, *attempt};
  if (to_string(name) != text) return std::nullopt;  // one way to write each
  return name;
}

Status check_step_of_folder(const Path& folder, const Manifest& manifest) {
  const Path plain = folder.has_filename() ? folder : folder.parent_path();
  const auto name = folder_name_from_string(plain.filename().native());
  if (!name || name->step == manifest.step) return ok();
  return fail(
      ErrorCode::kCorrupt,
      fmt::format("[checkpoint/inspect] {}: its manifest is of step {}; give the folder its "
                  "name back: {}",
                  plain.native(), to_int(manifest.step), to_string(FolderName{manifest.step, 0})));
}

Result<Manifest> inspect(Files& files, const Path& folder) {
  MUSTER_ASSIGN(Manifest manifest, read_manifest(files, folder));
  MUSTER_TRY(check_step_of_folder(folder, manifest));
  for (const FileRecord& file : manifest.files) {
    const auto size = files.size(folder / file.name);
    if (size && *size == file.size) continue;
    const std::string found = size ? fmt::format("{} bytes", *size) : size.error().message;
    return fail(ErrorCode::kCorrupt,
                fmt::format("[checkpoint/inspect] {}: the manifest promises {} bytes, found: {}",
                            (folder / file.name).native(), file.size, found));
  }
  return manifest;
}

Result<std::vector<Found>> survey(Files& files, const Path& folder) {
  std::vector<Found> found;
  const auto names = files.list(folder);
  if (!names && names.error().code == ErrorCode::kNotFound) return found;
  if (!names) return names.error();
  for (const std::string& text : *names) {
    if (const auto name = folder_name_from_string(text)) {
      found.push_back({*name, folder / text, inspect(files, folder / text)});
    }
  }
  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return a.name < b.name; });
  return found;
}

const Found* last_whole(const std::vector<Found>& all, Step step) {
  for (auto found = all.rbegin(); found != all.rend(); ++found) {
    if (found->name.step == step && found->manifest) return &*found;
  }
  return nullptr;
}

}  // namespace muster::checkpoint
