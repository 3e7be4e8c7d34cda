#include "muster/checkpoint/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "muster/checkpoint/export.h"
#include "muster/checkpoint/restore.h"
#include "muster/checkpoint/safetensors.h"
#include "muster/checkpoint/survey.h"

namespace muster::checkpoint {
namespace {

constexpr std::string_view kSuffix = ".safetensors";

Result<Weights> in_file(Files& files, const Path& file) {
  MUSTER_ASSIGN(const SafetensorsHeader header, read_safetensors_header(files, file));
  Weights weights{file, std::nullopt, {}};
  for (const SafetensorsEntry& entry : header.entries)
    weights.tensors.push_back({entry.name, entry.dtype, entry.shape, file.filename().string()});
  return weights;
}

Weights in_checkpoint(const Path& folder, Manifest manifest) {
  Weights weights{folder, std::nullopt, manifest.model};
  weights.manifest = std::move(manifest);
  return weights;
}

// The newest in a folder of checkpoints.
Result<Weights> newest(Files& files, const Path& folder, const Path& place) {
  MUSTER_ASSIGN(const auto found, survey(files, folder));
  const auto whole = std::find_if(found.rbegin(), found.rend(),
                                  [](const Found& one) { return one.manifest.has_value(); });
  if (whole != found.rend()) return in_checkpoint(whole->folder, *whole->manifest);
  return fail(
      ErrorCode::kNotFound,
      fmt::format("[checkpoint/weights] {} is no safetensors file, no checkpoint and no run "
                  "with a whole one",
                  place.native()));
}

void copy_from(std::span<const std::byte> whole, const TensorSlice& slice) {
  const ByteRuns from = runs_of(slice);
  for (std::uint64_t run = 0; run < from.runs; ++run)
    std::memcpy(slice.tensor.bytes.data() + run * from.length,
                whole.data() + from.first + run * from.pitch, from.length);
}

// The header is as it was when check_same_tensors() accepted the target.
Status read_file(Files& files, const Path& file, const std::vector<TensorSlice>& target) {
  MUSTER_ASSIGN(const SafetensorsHeader header, read_safetensors_header(files, file));
  MUSTER_ASSIGN(const auto mapped, files.map(file));
  for (const TensorSlice& slice : target) {
    const auto entry = std::ranges::find(header.entries, slice.name, &SafetensorsEntry::name);
    copy_from(mapped->bytes().subspan(entry->begin, entry->end - entry->begin), slice);
  }
  return ok();
}

}  // namespace

Result<Weights> find_weights(Files& files, const Path& place) {
  const Path plain = place.has_filename() ? place : place.parent_path();
  if (!files.exists(plain))
    return fail(ErrorCode::kNotFound,
                fmt::format("[checkpoint/weights] there is no {}", place.native()));
  if (plain.native().ends_with(kSuffix)) return in_file(files, plain);
  if (files.exists(plain / kManifestName)) {
    MUSTER_ASSIGN(Manifest manifest, inspect(files, plain));
    return in_checkpoint(plain, std::move(manifest));
  }
  if (files.exists(plain / kExportedName)) return in_file(files, plain / kExportedName);
  const Path checkpoints = plain / "checkpoints";
  return newest(files, files.exists(checkpoints) ? checkpoints : plain, place);
}

Status read_weights(Files& files, const Weights& weights, const std::vector<TensorSlice>& target) {
  MUSTER_TRY(check_same_tensors("model", weights.tensors, target, /*some=*/true));
  if (weights.manifest)
    return restore(files, weights.place, *weights.manifest, weights.tensors, target);
  return read_file(files, weights.place, target);
}

}  // namespace muster::checkpoint
