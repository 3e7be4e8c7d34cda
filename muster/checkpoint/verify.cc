#include "muster/checkpoint/verify.h"

#include <fmt/format.h>

#include "muster/checkpoint/hashed_file.h"
#include "muster/checkpoint/restore.h"
#include "muster/checkpoint/safetensors.h"
#include "muster/checkpoint/survey.h"

namespace muster::checkpoint {
namespace {

// An error about `path`, where that has been said: without "[operation] path: ".
std::string about(const Path& path, std::string_view message) {
  if (message.starts_with('[')) {
    const std::size_t end = message.find("] ");
    if (end != message.npos) message.remove_prefix(end + 2);
  }
  const std::string place = path.native() + ": ";
  if (message.starts_with(place)) message.remove_prefix(place.size());
  return std::string(message);
}

// The header is covered by the hashes; this finds files that never fitted their manifest.
void check_tensors(Files& files, const Path& folder, const FileRecord& file,
                   const Manifest& manifest, std::vector<Damage>& damage) {
  const auto header = read_safetensors_header(files, folder / file.name);
  if (!header) {
    damage.push_back({file.name, std::nullopt, about(folder / file.name, header.error().message)});
    return;
  }
  std::vector<TensorRecord> promised;
  for (const auto* group : {&manifest.model, &manifest.optimizer}) {
    for (const TensorRecord& record : *group) {
      if (record.file == file.name) promised.push_back(record);
    }
  }
  std::vector<NamedTensor> present;
  for (const SafetensorsEntry& entry : header->entries) {
    present.push_back({entry.name, {entry.dtype, entry.shape, {}, Device::kCpu}});
  }
  const auto same = check_same_tensors("file", promised, whole_slices(present));
  if (!same)
    damage.push_back({file.name, std::nullopt, about(folder / file.name, same.error().message)});
}

// Adds what is wrong with one file.
void check_file(Files& files, const Path& folder, const FileRecord& file, const Manifest& manifest,
                VerifyReport& report) {
  const std::size_t before = report.damage.size();
  ChunkHasher hasher;
  const auto read = read_chunks(files, folder, file, [&](const CheckedChunk& chunk) -> Status {
    hasher.update(chunk.bytes);
    report.bytes += chunk.bytes.size();
    if (!chunk.right) {
      report.damage.push_back(
          {file.name, chunk.index,
           fmt::format("{} is not what the manifest says", describe_chunk(file, chunk.index))});
    }
    return ok();
  });
  if (!read)
    report.damage.push_back(
        {file.name, std::nullopt, about(folder / file.name, read.error().message)});
  if (report.damage.size() > before) return;
  if (hasher.finish(file.name) != file) {
    report.damage.push_back({file.name, std::nullopt, "its SHA-256 is not what the manifest says"});
  }
  check_tensors(files, folder, file, manifest, report.damage);
}

}  // namespace

Result<VerifyReport> verify_checkpoint(Files& files, const Path& folder) {
  if (!files.exists(folder)) {
    return fail(ErrorCode::kNotFound,
                fmt::format("[checkpoint/verify] no folder {}", folder.native()));
  }
  VerifyReport report{folder, std::nullopt, 0, {}};
  const auto manifest = read_manifest(files, folder);
  if (!manifest) {
    report.damage.push_back({std::string(kManifestName), std::nullopt,
                             about(folder / kManifestName, manifest.error().message)});
    return report;
  }
  report.step = manifest->step;
  if (const auto named = check_step_of_folder(folder, *manifest); !named)
    report.damage.push_back(
        {std::string(kManifestName), std::nullopt, about(folder, named.error().message)});
  for (const FileRecord& file : manifest->files) {
    check_file(files, folder, file, *manifest, report);
  }
  return report;
}

}  // namespace muster::checkpoint
