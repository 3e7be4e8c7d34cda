#pragma once
// The safetensors format (huggingface.co/docs/safetensors): 8 bytes of header length,
// little-endian; a JSON header of name -> {dtype, shape, data_offsets}, padded with spaces so that
// the data starts at a multiple of 8; the tensors' bytes, without holes or overlaps. Nothing in it
// is executable. Functions here are pure or touch the disk through Files only; thread-safe.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/files.h"
#include "muster/base/result.h"
#include "muster/base/tensor_view.h"

namespace muster::checkpoint {

inline constexpr std::uint64_t kMaxSafetensorsHeader =
    100'000'000;  // bytes; the format's own limit

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::uint64_t begin = 0;  // of its bytes in the file
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
  std::uint64_t data_begin = 0;
};

using Metadata = std::map<std::string, std::string>;

// The start of a file that holds `tensors` in the order given: length, JSON, padding. Names are
// unique and not "__metadata__".
std::string encode_safetensors_header(std::span<const NamedTensor> tensors,
                                      const Metadata& metadata);

// Reads the JSON header of a file of `file_size` bytes. Believes nothing: kCorrupt for every way in
// which the header, the tensors' sizes and the file's size do not fit together exactly;
// kUnsupported for element types that muster does not have.
Result<SafetensorsHeader> decode_safetensors_header(std::string_view json, std::uint64_t file_size);

Result<SafetensorsHeader> read_safetensors_header(Files& files, const Path& path);

}  // namespace muster::checkpoint
