#include "muster/checkpoint/hashed_file.h"

#include <fmt/format.h>

#include <algorithm>

namespace muster::checkpoint {
namespace {

// Hands everything to the file and to the hasher, in blocks that stay in the cache between the two.
class HashingWriter {
 public:
  explicit HashingWriter(WritableFile& file) : file_(file) {}

  Status append(std::span<const std::byte> bytes) {
    constexpr std::size_t kBlock = std::size_t{1} << 20;
    while (!bytes.empty()) {
      const auto block = bytes.first(std::min(kBlock, bytes.size()));
      hasher_.update(block);
      MUSTER_TRY(file_.append(block));
      bytes = bytes.subspan(block.size());
    }
    return ok();
  }
  FileRecord finish(std::string name) { return hasher_.finish(std::move(name)); }

 private:
  WritableFile& file_;
  ChunkHasher hasher_;
};

Error wrong_size(const Path& path, const FileRecord& record, std::uint64_t size) {
  return fail(ErrorCode::kCorrupt,
              fmt::format("[checkpoint/read] {}: {} bytes, the manifest says {}", path.native(),
                          size, record.size));
}

}  // namespace

void ChunkHasher::update(std::span<const std::byte> bytes) {
  record_.size += bytes.size();
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(kChunkBytes - in_chunk_, bytes.size()));
    whole_.update(part);
    chunk_.update(part);
    in_chunk_ += part.size();
    if (in_chunk_ == kChunkBytes) end_chunk();
    bytes = bytes.subspan(part.size());
  }
}

void ChunkHasher::end_chunk() {
  record_.chunks.push_back(to_hex(chunk_.finish()));
  in_chunk_ = 0;
}

FileRecord ChunkHasher::finish(std::string name) {
  if (in_chunk_ > 0) end_chunk();
  record_.name = std::move(name);
  record_.sha256 = to_hex(whole_.finish());
  return std::exchange(record_, {});
}

Result<FileRecord> write_safetensors(Files& files, const Path& path,
                                     std::span<const NamedTensor> tensors,
                                     const Metadata& metadata) {
  MUSTER_ASSIGN(const auto file, files.open(path, Files::Open::kExclusive));
  HashingWriter writer(*file);
  const std::string header = encode_safetensors_header(tensors, metadata);
  MUSTER_TRY(writer.append(std::as_bytes(std::span(header))));
  for (const NamedTensor& tensor : tensors) MUSTER_TRY(writer.append(tensor.tensor.bytes));
  MUSTER_TRY(file->sync());
  MUSTER_TRY(file->close());
  return writer.finish(path.filename().native());
}

Status read_chunks(Files& files, const Path& folder, const FileRecord& record,
                   const std::function<Status(const CheckedChunk&)>& each) {
  const Path path = folder / record.name;
  MUSTER_ASSIGN(const std::uint64_t size, files.size(path));
  if (size != record.size) return wrong_size(path, record, size);
  std::vector<std::byte> buffer(std::min<std::uint64_t>(kChunkBytes, size));
  for (std::size_t index = 0; index < record.chunks.size(); ++index) {
    const std::uint64_t offset = index * kChunkBytes;
    const auto length = std::min<std::uint64_t>(kChunkBytes, size - offset);
    MUSTER_ASSIGN(const std::size_t got,
                  files.read_at(path, offset, std::span(buffer).first(length)));
    if (got != length) return wrong_size(path, record, offset + got);
    const std::span<const std::byte> bytes = std::span(buffer).first(length);
    MUSTER_TRY(each({index, offset, bytes, to_hex(sha256(bytes)) == record.chunks[index]}));
  }
  return ok();
}

std::string describe_chunk(const FileRecord& record, std::size_t index) {
  const std::uint64_t begin = index * kChunkBytes;
  return fmt::format("chunk {} (bytes {} to {})", index, begin,
                     std::min<std::uint64_t>(record.size, begin + kChunkBytes) - 1);
}

}  // namespace muster::checkpoint
