#include "muster/app/data/data_look.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "muster/app/data/data_files.h"
#include "muster/app/data/data_look_kinds.h"
#include "muster/app/data/pixel_moments.h"
#include "muster/data/formats/idx/idx.h"

namespace muster::app {
namespace {

constexpr std::int64_t kLookedAt = 64 << 20;  // bytes of samples, evenly spread
constexpr std::size_t kMostKinds = 3;         // of files, that are told

std::string what_is_read() {
  const job::DataSpec data;  // with the names that a job expects by default
  return fmt::format(
      "muster reads folders of .png and .jpg files, one subfolder a class, folders of IDX files "
      "({}, {}, {}, {}, each plain or .gz), tables (.csv, .tsv, plain or .gz) and text files; data "
      "of other kinds comes through a source of your own (docs/app.md)",
      data.train_images, data.train_labels, data.validation_images, data.validation_labels);
}

std::int64_t label_in(std::span<const std::byte> bytes) {
  std::int64_t label = 0;
  std::memcpy(&label, bytes.data(), sizeof label);
  return label;
}

Status count_classes(const data::Source& source, LabelledArrays& found) {
  Sample sample(source);
  for (std::int64_t i = 0; i < source.size(); ++i) {
    MUSTER_TRY(sample.read(i));
    found.classes = std::max(found.classes, label_in(sample.bytes(1)) + 1);
  }
  return ok();
}

Result<DataFound> look_at_idx(Files& files, const DataFiles& idx) {
  MUSTER_ASSIGN(const auto training,
                data::create_idx_source(files, {idx.train_images, idx.train_labels}));
  MUSTER_ASSIGN(const auto validation,
                data::create_idx_source(files, {idx.validation_images, idx.validation_labels}));
  LabelledArrays found{.training = training->size(),
                       .validation = validation->size(),
                       .shape = training->fields().front().shape,
                       .classes = 0,
                       .moments = {}};
  MUSTER_TRY(count_classes(*training, found));
  if (training->fields().front().dtype == DType::kU8) {
    const std::int64_t bytes = data::byte_size(training->fields().front());
    MUSTER_ASSIGN(found.moments, pixel_moments(*training, kLookedAt / bytes));
  }
  return DataFound(std::move(found));
}

std::string kind_of(Files& files, const Path& path) {
  if (files.list(path)) return "folder(s)";
  const std::string extension = path.extension().string();
  return extension.empty() ? "without an extension" : extension;
}

// "3 .png, 2 folder(s)"
std::string kinds_of(Files& files, const Path& folder, const std::vector<std::string>& names) {
  std::map<std::string, int> count;
  for (const std::string& name : names) ++count[kind_of(files, folder / name)];
  std::vector<std::pair<int, std::string>> kinds;
  kinds.reserve(count.size());
  for (const auto& [kind, times] : count) kinds.emplace_back(times, kind);
  std::ranges::sort(kinds, std::ranges::greater());
  std::string text;
  for (std::size_t i = 0; i < std::min(kinds.size(), kMostKinds); ++i)
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", kinds[i].first, kinds[i].second);
  return text.empty() ? "nothing" : text;
}

Result<DataFound> look_at_folder(Files& files, const Path& path,
                                 const std::vector<std::string>& names) {
  job::DataSpec data;
  data.path = path.string();
  const DataFiles idx = idx_files(files, data);
  if (!files.exists(idx.train_images) && holds_pictures(files, path))
    return look_at_pictures(files, path);
  for (const Path& part :
       {idx.train_images, idx.train_labels, idx.validation_images, idx.validation_labels}) {
    if (!files.exists(part))
      return fail(ErrorCode::kUnsupported, fmt::format("[data/look] {} holds {}, and no {}; {}",
                                                       path.string(), kinds_of(files, path, names),
                                                       part.filename().string(), what_is_read()));
  }
  return look_at_idx(files, idx);
}

// Of bytes that no text has.
Result<DataFound> look_at_file(Files& files, const Path& path, std::uint64_t bytes) {
  constexpr std::size_t kBeginning = 1 << 16;
  MUSTER_ASSIGN(const std::string beginning, files.read_up_to(path, kBeginning));
  if (beginning.find('\0') != beginning.npos)
    return fail(ErrorCode::kUnsupported,
                fmt::format("[data/look] {} is no text: it holds bytes that are zero; {}",
                            path.string(), what_is_read()));
  return DataFound(PlainText{bytes});
}

}  // namespace

Result<DataFound> look_at_data(Files& files, const Path& path, const std::string& target) {
  if (!files.exists(path))
    return fail(ErrorCode::kNotFound, fmt::format("[data/look] there is no {}", path.string()));
  const auto names = files.list(path);
  if (!names && is_table_name(path)) return look_at_table(files, path, target);
  if (!target.empty())
    return fail(
        ErrorCode::kInvalid,
        fmt::format("[data/look] `{}` would be a column of a table, and {} is none (.csv or "
                    ".tsv)",
                    target, path.string()));
  if (names) return look_at_folder(files, path, *names);
  MUSTER_ASSIGN(const std::uint64_t bytes, files.size(path));
  return look_at_file(files, path, bytes);
}

}  // namespace muster::app
