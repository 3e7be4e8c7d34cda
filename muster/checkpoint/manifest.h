#pragma once
// What a checkpoint is: which files, with which content, of which step of which job. Written last;
// a folder without a manifest is no checkpoint. Its first line holds the digest of all that
// follows, so that a damaged manifest is known as such. Plain data; functions are pure.

#include <string>
#include <string_view>
#include <vector>

#include "muster/base/ids.h"
#include "muster/base/result.h"
#include "muster/base/tensor_view.h"
#include "muster/checkpoint/hashed_file.h"

namespace muster::checkpoint {

inline constexpr int kManifestFormat = 1;
inline constexpr std::string_view kManifestName = "manifest.json";

// Where a whole tensor lies. Shapes are global: how a strategy splits a tensor is not recorded, so
// that any other can read it.
struct TensorRecord {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::string file;

  friend bool operator==(const TensorRecord&, const TensorRecord&) = default;
};

struct Manifest {
  std::string job;
  Step step{0};
  Generation generation{0};
  std::string created;       // UTC
  std::string state = "{}";  // JSON object of the trainer's own: cursor, counters, best
  std::vector<TensorRecord> model, optimizer;
  std::vector<FileRecord> files;

  friend bool operator==(const Manifest&, const Manifest&) = default;
  std::uint64_t bytes() const noexcept;  // of all files
};

// The text of manifest.json. kInvalid when `state` is no JSON object.
Result<std::string> encode_manifest(const Manifest& manifest);

// kCorrupt for whatever encode_manifest() did not write, kUnsupported for a later format.
Result<Manifest> decode_manifest(std::string_view text);

Result<Manifest> read_manifest(Files& files, const Path& folder);

}  // namespace muster::checkpoint
