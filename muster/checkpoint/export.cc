#include "muster/checkpoint/export.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/round_up.h"
#include "muster/checkpoint/hashed_file.h"
#include "muster/checkpoint/merge_adapters.h"
#include "muster/checkpoint/restore.h"
#include "muster/checkpoint/safetensors.h"
#include "muster/checkpoint/verify.h"

namespace muster::checkpoint {
namespace {

Status check_whole(Files& files, const Path& folder) {
  MUSTER_ASSIGN(const VerifyReport report, verify_checkpoint(files, folder));
  if (report.whole()) return ok();
  return fail(ErrorCode::kCorrupt,
              fmt::format("[checkpoint/export] {} is damaged: {}: {}; choose another checkpoint",
                          folder.native(), report.damage[0].file, report.damage[0].what));
}

// The model of a checkpoint, in memory.
struct ModelBytes {
  std::vector<std::byte> bytes;
  std::vector<NamedTensor> tensors;  // into `bytes`
};

ModelBytes allocate(const std::vector<TensorRecord>& records) {
  constexpr std::size_t kAlignment = 16;
  const auto size = [](const TensorRecord& record) {
    return static_cast<std::size_t>(element_count(record.shape)) * size_of(record.dtype);
  };
  const auto padded = [&](const TensorRecord& record) {
    return round_up(size(record), kAlignment);
  };
  ModelBytes weights;
  std::size_t total = 0;
  for (const TensorRecord& record : records) total += padded(record);
  weights.bytes.resize(total);
  std::size_t at = 0;
  for (const TensorRecord& record : records) {
    const auto place = std::span(weights.bytes).subspan(at, size(record));
    weights.tensors.push_back({record.name, {record.dtype, record.shape, place, Device::kCpu}});
    at += padded(record);
  }
  return weights;
}

// Where the tensors called "optimizer/<parameter>/ema" go: in the places of their parameters.
std::vector<TensorSlice> average_places(const Manifest& manifest, const ModelBytes& weights) {
  std::vector<NamedTensor> places;
  for (const NamedTensor& parameter : weights.tensors) {
    const std::string name = fmt::format("optimizer/{}/ema", parameter.name);
    if (std::ranges::find(manifest.optimizer, name, &TensorRecord::name) !=
        manifest.optimizer.end())
      places.push_back({name, parameter.tensor});
  }
  return whole_slices(places);
}

Status take_average(Files& files, const Path& folder, const Manifest& manifest,
                    const ModelBytes& weights) {
  const std::vector<TensorSlice> places = average_places(manifest, weights);
  if (places.empty())
    return fail(ErrorCode::kInvalid,
                fmt::format("[checkpoint/export] {} holds no average of the weights; the job has "
                            "to keep one (ema.decay)",
                            folder.native()));
  MUSTER_TRY(check_same_tensors("average", manifest.optimizer, places, /*some=*/true));
  return restore(files, folder, manifest, manifest.optimizer, places);
}

Status check_place(Files& files, const Path& into, bool may_replace) {
  if (files.exists(into / kManifestName))
    return fail(
        ErrorCode::kInvalid,
        fmt::format("[checkpoint/export] {} is a checkpoint, which its model would replace; "
                    "choose another folder",
                    into.native()));
  const Path target = into / kExportedName;
  if (may_replace || !files.exists(target)) return ok();
  return fail(ErrorCode::kInvalid,
              fmt::format("[checkpoint/export] {} is there already and is left as it is; choose "
                          "another folder, or --force to replace it",
                          target.native()));
}

Result<Exported> write(Files& files, const ModelBytes& weights, const Path& into) {
  MUSTER_TRY(files.create_folders(into));
  const Path target = into / kExportedName;
  const Path fresh = fresh_name(target);
  Result<FileRecord> file = write_safetensors(files, fresh, weights.tensors, {{"format", "pt"}});
  const Status published = file ? files.rename(fresh, target) : Status(file.error());
  if (!published) {
    static_cast<void>(files.remove_all(fresh));
    return published.error();
  }
  MUSTER_TRY(files.sync_folder(into));
  return Exported{target, file->size, weights.tensors.size()};
}

}  // namespace

Result<Exported> export_weights(Files& files, const Path& folder, const Path& into,
                                const ExportOptions& options) {
  MUSTER_TRY(check_place(files, into, options.replace));
  MUSTER_TRY(check_whole(files, folder));
  MUSTER_ASSIGN(const Manifest manifest, read_manifest(files, folder));
  ModelBytes weights = allocate(manifest.model);
  MUSTER_TRY(restore(files, folder, manifest, manifest.model, whole_slices(weights.tensors)));
  if (options.average) MUSTER_TRY(take_average(files, folder, manifest, weights));
  if (options.merge) MUSTER_TRY(merge_adapters(weights.tensors));
  auto written = write(files, weights, into);
  if (written) return written;
  return fail(ErrorCode::kUnavailable, fmt::format("[checkpoint/export] cannot write to {}: {}",
                                                   into.native(), written.error().message));
}

}  // namespace muster::checkpoint
