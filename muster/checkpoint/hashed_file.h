#pragma once
// Files whose content is known by its hashes: one SHA-256 for the whole file and one for each 4 MiB
// chunk, so that damage is found and placed.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "muster/base/files.h"
#include "muster/base/hash.h"
#include "muster/base/result.h"
#include "muster/base/tensor_view.h"
#include "muster/checkpoint/safetensors.h"

namespace muster::checkpoint {

inline constexpr std::size_t kChunkBytes = std::size_t{4} << 20;

struct FileRecord {
  std::string name;  // within its folder
  std::uint64_t size = 0;
  std::string sha256;               // hex
  std::vector<std::string> chunks;  // hex, one for each kChunkBytes, the last one shorter

  friend bool operator==(const FileRecord&, const FileRecord&) = default;
};

// Hashes bytes as they come, in chunks. One thread at a time.
class ChunkHasher {
 public:
  void update(std::span<const std::byte> bytes);
  FileRecord finish(std::string name);

 private:
  void end_chunk();

  Sha256 whole_, chunk_;
  std::size_t in_chunk_ = 0;
  FileRecord record_;
};

// Writes a new safetensors file, forces it to the disk and returns its record. The file must not
// exist. After an error it is worthless and its name is not to be used again.
Result<FileRecord> write_safetensors(Files& files, const Path& path,
                                     std::span<const NamedTensor> tensors,
                                     const Metadata& metadata);

// One chunk of a file that has been read; `right` when it is what the record promises.
struct CheckedChunk {
  std::size_t index = 0;
  std::uint64_t offset = 0;
  std::span<const std::byte> bytes;
  bool right = false;
};

// Reads the file `record` in `folder` chunk by chunk, in order, and hands each to `each`, until
// that returns an error. kCorrupt when the file is shorter or longer than the record says.
Status read_chunks(Files& files, const Path& folder, const FileRecord& record,
                   const std::function<Status(const CheckedChunk&)>& each);

// "chunk 3 (bytes 12582912 to 16777215)", for messages.
std::string describe_chunk(const FileRecord& record, std::size_t index);

}  // namespace muster::checkpoint
