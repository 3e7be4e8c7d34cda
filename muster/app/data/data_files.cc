#include "muster/app/data/data_files.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "muster/job/enum_names.h"

namespace muster::app {
namespace {

Path plain_or_gzip(Files& files, const Path& folder, const std::string& name) {
  const Path plain = folder / name;
  const Path packed = folder / (name + ".gz");
  return !files.exists(plain) && files.exists(packed) ? packed : plain;
}

Status expect(Files& files, const char* field, const Path& path, std::string_view hint) {
  if (files.exists(path)) return ok();
  return fail(ErrorCode::kNotFound,
              fmt::format("[job] {}: there is no {}; {}", field, path.string(), hint));
}

// A file where a folder is wanted, or the other way round, would only be told by a worker, and
// without the field's name. What cannot be looked at at all is left to the one who opens it.
Status check_kind(Files& files, const char* field, const Path& path, job::DataType type) {
  const bool wants_file = type == job::DataType::kText || type == job::DataType::kCsv;
  if (wants_file && files.list(path))
    return fail(ErrorCode::kInvalid,
                fmt::format("[job] {}: {} is a folder; data.type {} takes one file", field,
                            path.string(), job::to_string(type)));
  if (!wants_file && files.size(path))
    return fail(ErrorCode::kInvalid,
                fmt::format("[job] {}: {} is a file; data.type {} takes the folder that holds {}",
                            field, path.string(), job::to_string(type),
                            type == job::DataType::kIdx ? "the files of images and labels"
                                                        : "a folder of pictures for each class"));
  return ok();
}

// What jobs/*.yaml name, and script/data provides.
bool is_of_a_shipped_job(const Path& path) {
  const std::string text = path.lexically_normal().native();
  return text == "/usr/share/datasets/fashion-mnist" || text.ends_with("data/kjv.txt");
}

// A relative path is another place in every folder.
std::string where_else(const Path& path) {
  std::string hint = path.is_absolute() ? "is it spelt right, and its disk mounted?"
                                        : "paths are relative to the folder in which muster runs";
  if (is_of_a_shipped_job(path)) hint += "; script/data fetches what the shipped jobs use";
  return hint;
}

Status check_place(Files& files, const char* field, const Path& path, job::DataType type) {
  MUSTER_TRY(expect(files, field, path, where_else(path)));
  return check_kind(files, field, path, type);
}

Status check_idx(Files& files, const job::DataSpec& data) {
  const DataFiles idx = idx_files(files, data);
  for (const auto& [field, path] : {std::pair("data.train_images", &idx.train_images),
                                    std::pair("data.train_labels", &idx.train_labels),
                                    std::pair("data.validation_images", &idx.validation_images),
                                    std::pair("data.validation_labels", &idx.validation_labels)}) {
    MUSTER_TRY(expect(files, field, *path, "nor one that ends with .gz"));
    if (files.list(*path))
      return fail(ErrorCode::kUnavailable,
                  fmt::format("[job] {}: {} is a folder; an IDX file was expected, plain or gzip",
                              field, path->string()));
  }
  return ok();
}

}  // namespace

DataFiles idx_files(Files& files, const job::DataSpec& data) {
  const Path training = data.path;
  const Path validation = data.validation_path.empty() ? training : Path(data.validation_path);
  return {plain_or_gzip(files, training, data.train_images),
          plain_or_gzip(files, training, data.train_labels),
          plain_or_gzip(files, validation, data.validation_images),
          plain_or_gzip(files, validation, data.validation_labels)};
}

Status check_data_is_there(Files& files, const job::DataSpec& data) {
  if (data.type == job::DataType::kOwn) return ok();  // what its path means, its source knows
  MUSTER_TRY(check_place(files, "data.path", data.path, data.type));
  if (!data.validation_path.empty())
    MUSTER_TRY(check_place(files, "data.validation_path", data.validation_path, data.type));
  return data.type == job::DataType::kIdx ? check_idx(files, data) : ok();
}

Status check_weights_are_there(Files& files, const job::ModelSpec& model) {
  if (model.weights.empty()) return ok();
  const Path place = model.weights;
  MUSTER_TRY(
      expect(files, "model.weights", place, "it may be a run, a checkpoint or a safetensors file"));
  if (!files.size(place) || place.native().ends_with(".safetensors")) return ok();
  return fail(ErrorCode::kInvalid,
              fmt::format("[job] model.weights: {} is a file whose name does not end with "
                          ".safetensors; it may be a run, a checkpoint or such a file",
                          place.string()));
}

}  // namespace muster::app
