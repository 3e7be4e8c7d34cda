#include "muster/checkpoint/restore.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "muster/checkpoint/hashed_file.h"
#include "muster/checkpoint/safetensors.h"

namespace muster::checkpoint {
namespace {

constexpr std::size_t kShownDifferences = 5;

// Of one tensor there may be several slices; in the order in which they lie in it.
using ByName = std::map<std::string_view, std::vector<const TensorSlice*>>;

ByName by_name(const std::vector<TensorSlice>& tensors) {
  ByName map;
  for (const TensorSlice& slice : tensors) map[slice.name].push_back(&slice);
  for (auto& [name, slices] : map)
    std::ranges::sort(slices, {}, [](const TensorSlice* slice) { return slice->offset; });
  return map;
}

Error corrupt(const Path& path, std::string_view what) {
  return fail(ErrorCode::kCorrupt, fmt::format("[checkpoint/load] {}: {}; `muster checkpoint "
                                               "verify` shows all damage, --resume can start from "
                                               "an earlier one",
                                               path.native(), what));
}

std::string describe_record(const TensorRecord& record) {
  return fmt::format("{} [{}]", to_string(record.dtype), fmt::join(record.shape, ", "));
}

std::string describe_whole(const TensorSlice& slice) {
  return fmt::format("{} [{}]", to_string(slice.tensor.dtype), fmt::join(slice.global_shape, ", "));
}

auto unlike(const TensorRecord& record) {
  return [&record](const TensorSlice* slice) {
    return slice->tensor.dtype != record.dtype || slice->global_shape != record.shape;
  };
}

// Where the bytes of a file go: `from` counts from the file's begin.
struct Piece {
  ByteRuns from;
  std::span<std::byte> into;
};

// Copies what a chunk and a piece have in common.
void copy_common(const CheckedChunk& chunk, const Piece& piece) {
  const std::uint64_t chunk_end = chunk.offset + chunk.bytes.size();
  const auto& [first, length, pitch, runs] = piece.from;
  std::uint64_t run = chunk.offset > first ? (chunk.offset - first) / pitch : 0;
  for (; run < runs && first + run * pitch < chunk_end; ++run) {
    const std::uint64_t run_begin = first + run * pitch;
    const std::uint64_t begin = std::max(chunk.offset, run_begin);
    const std::uint64_t end = std::min(chunk_end, run_begin + length);
    if (begin >= end) continue;
    std::memcpy(piece.into.data() + run * length + (begin - run_begin),
                chunk.bytes.data() + (begin - chunk.offset), end - begin);
  }
}

// The wanted pieces of one file, in order, if its header names exactly the tensors the manifest
// puts there.
Result<std::vector<Piece>> plan_file(Files& files, const Path& path,
                                     const std::vector<const TensorRecord*>& records,
                                     const ByName& target) {
  MUSTER_ASSIGN(const SafetensorsHeader header, read_safetensors_header(files, path));
  if (header.entries.size() != records.size()) {
    return corrupt(path, "its header and the manifest name different tensors");
  }
  std::vector<Piece> pieces;
  for (const SafetensorsEntry& entry : header.entries) {
    const auto same = [&](const TensorRecord* record) {
      return record->name == entry.name && record->dtype == entry.dtype &&
             record->shape == entry.shape;
    };
    if (std::none_of(records.begin(), records.end(), same)) {
      return corrupt(path, fmt::format("the manifest knows no such tensor `{}`", entry.name));
    }
    const auto wanted = target.find(entry.name);
    if (wanted == target.end()) continue;
    for (const TensorSlice* slice : wanted->second) {
      ByteRuns from = runs_of(*slice);
      from.first += entry.begin;
      pieces.push_back({from, slice->tensor.bytes});
    }
  }
  return pieces;
}

Status restore_file(Files& files, const Path& folder, const FileRecord& file,
                    const std::vector<Piece>& pieces) {
  std::size_t first = 0;  // the first piece that is not complete
  return read_chunks(files, folder, file, [&](const CheckedChunk& chunk) -> Status {
    if (!chunk.right) {
      return corrupt(folder / file.name, fmt::format("{} is not what the manifest says",
                                                     describe_chunk(file, chunk.index)));
    }
    const std::uint64_t end = chunk.offset + chunk.bytes.size();
    for (std::size_t i = first; i < pieces.size() && pieces[i].from.first < end; ++i) {
      copy_common(chunk, pieces[i]);
      if (pieces[i].from.end() <= end) first = i + 1;
    }
    return ok();
  });
}

}  // namespace

Status check_same_tensors(std::string_view group, const std::vector<TensorRecord>& records,
                          const std::vector<TensorSlice>& target, bool some) {
  ByName wanted = by_name(target);
  std::vector<std::string> differences;
  for (const TensorRecord& record : records) {
    const auto found = wanted.find(record.name);
    if (found == wanted.end()) {
      if (!some) differences.push_back(fmt::format("`{}` is in the checkpoint only", record.name));
    } else if (const auto other = std::ranges::find_if(found->second, unlike(record));
               other != found->second.end()) {
      differences.push_back(fmt::format("`{}` is {} in the checkpoint, {} here", record.name,
                                        describe_record(record), describe_whole(**other)));
    }
    if (found != wanted.end()) wanted.erase(found);
  }
  for (const auto& [name, slices] : wanted) {
    differences.push_back(fmt::format("`{}` is not in the checkpoint", name));
  }
  if (differences.empty()) return ok();
  const std::size_t count = differences.size();
  differences.resize(std::min(count, kShownDifferences));
  return fail(ErrorCode::kInvalid,
              fmt::format("[checkpoint/load] the {} differs from the checkpoint's in {} tensors: "
                          "{}{}; use the job that wrote it",
                          group, count, fmt::join(differences, "; "),
                          count > kShownDifferences ? "; …" : ""));
}

Status restore(Files& files, const Path& folder, const Manifest& manifest,
               const std::vector<TensorRecord>& records, const std::vector<TensorSlice>& target) {
  std::map<std::string_view, std::vector<const TensorRecord*>> by_file;
  for (const TensorRecord& record : records) by_file[record.file].push_back(&record);
  const ByName wanted = by_name(target);
  for (const FileRecord& file : manifest.files) {
    const auto of_file = by_file.find(file.name);
    if (of_file == by_file.end()) continue;
    MUSTER_ASSIGN(const auto pieces, plan_file(files, folder / file.name, of_file->second, wanted));
    MUSTER_TRY(restore_file(files, folder, file, pieces));
    by_file.erase(of_file);
  }
  if (by_file.empty()) return ok();
  return corrupt(folder / kManifestName,
                 fmt::format("it names no file `{}`", by_file.begin()->first));
}

}  // namespace muster::checkpoint
