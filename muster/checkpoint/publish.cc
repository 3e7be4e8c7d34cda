#include "muster/checkpoint/publish.h"

#include <fmt/format.h>

#include <set>

#include "muster/checkpoint/hashed_file.h"
#include "muster/checkpoint/safetensors.h"

namespace muster::checkpoint {
namespace {

using Tensors = std::span<const NamedTensor>;

Error invalid(std::string_view what) {
  return fail(ErrorCode::kInvalid, fmt::format("[checkpoint/save] {}", what));
}

Status check_tensors(std::string_view group, Tensors tensors) {
  std::set<std::string_view> names;
  for (const auto& [name, tensor] : tensors) {
    if (name == "__metadata__") return invalid("no tensor may be called __metadata__");
    if (!names.insert(name).second) {
      return invalid(fmt::format("two tensors of the {} are called `{}`", group, name));
    }
    const auto bytes = static_cast<std::uint64_t>(tensor.count()) * size_of(tensor.dtype);
    if (tensor.device != Device::kCpu || tensor.bytes.size() != bytes) {
      return invalid(fmt::format("tensor `{}` ({}) is not {} bytes on the CPU", name,
                                 describe(tensor), bytes));
    }
  }
  return ok();
}

// Cuts the tensors into runs of at most `limit` bytes; a larger tensor is a run of its own.
std::vector<Tensors> cut(Tensors tensors, std::uint64_t limit) {
  std::vector<Tensors> parts;
  std::size_t begin = 0;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t more = tensors[i].tensor.bytes.size();
    if (i > begin && bytes + more > limit) {
      parts.push_back(tensors.subspan(begin, i - begin));
      begin = i;
      bytes = 0;
    }
    bytes += more;
  }
  if (begin < tensors.size()) parts.push_back(tensors.subspan(begin));
  return parts;
}

std::string file_name(std::string_view group, std::size_t part, std::size_t parts) {
  if (parts == 1) return fmt::format("{}.safetensors", group);
  return fmt::format("{}-{:05}-of-{:05}.safetensors", group, part + 1, parts);
}

// Writes one group of tensors; adds its files to the manifest.
Result<std::vector<TensorRecord>> write_group(Files& files, const Path& folder,
                                              std::string_view group, Tensors tensors,
                                              std::uint64_t limit, std::vector<FileRecord>& into) {
  std::vector<TensorRecord> records;
  const std::vector<Tensors> parts = cut(tensors, limit);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string name = file_name(group, i, parts.size());
    MUSTER_ASSIGN(FileRecord file,
                  write_safetensors(files, folder / name, parts[i], {{"format", "pt"}}));
    into.push_back(std::move(file));
    for (const NamedTensor& tensor : parts[i]) {
      records.push_back({tensor.name, tensor.tensor.dtype, tensor.tensor.shape, name});
    }
  }
  return records;
}

Status write_manifest(Files& files, const Path& folder, const Manifest& manifest) {
  MUSTER_ASSIGN(const std::string text, encode_manifest(manifest));
  return write_atomically(files, folder / kManifestName, text);
}

}  // namespace

Status check_request(const SaveRequest& request) {
  MUSTER_TRY(check_tensors("model", request.model));
  MUSTER_TRY(check_tensors("optimizer", request.optimizer));
  Manifest manifest;
  manifest.state = request.state;
  MUSTER_TRY(encode_manifest(manifest));
  return ok();
}

Result<Manifest> publish(Files& files, const Path& folder, const SaveRequest& request,
                         const CheckpointOptions& options, std::string created) {
  Manifest manifest{
      options.job, request.step, request.generation, std::move(created), request.state, {}, {}, {}};
  MUSTER_TRY(check_request(request));
  MUSTER_ASSIGN(manifest.model, write_group(files, folder, "model", request.model,
                                            options.max_file_bytes, manifest.files));
  MUSTER_ASSIGN(manifest.optimizer, write_group(files, folder, "optimizer", request.optimizer,
                                                options.max_file_bytes, manifest.files));
  MUSTER_TRY(files.sync_folder(folder));
  MUSTER_TRY(write_manifest(files, folder, manifest));
  return manifest;
}

Status unpublish(Files& files, const Path& folder) {
  MUSTER_TRY(files.remove_all(folder / kManifestName));
  Status synced = files.sync_folder(folder);
  if (!synced && synced.error().code == ErrorCode::kNotFound) return ok();  // it was never made
  if (!synced) return synced;
  return files.remove_all(folder);
}

}  // namespace muster::checkpoint
