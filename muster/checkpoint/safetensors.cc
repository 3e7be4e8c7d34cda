#include "muster/checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "muster/base/check.h"
#include "muster/base/round_up.h"

namespace muster::checkpoint {
namespace {

using nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::size_t kHeaderAlignment = 8;
constexpr int kMaxDepth = 3;  // {name: {"shape": [ ]}}
constexpr std::string_view kMetadataKey = "__metadata__";

Error bad_header(std::string_view what) {
  return fail(ErrorCode::kCorrupt, fmt::format("[checkpoint/safetensors] {}", what));
}

std::string little_endian(std::uint64_t value) {
  std::string bytes(kLengthBytes, '\0');
  for (char& byte : bytes) {
    byte = static_cast<char>(value & 0xff);
    value >>= 8;
  }
  return bytes;
}

std::uint64_t from_little_endian(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i > 0; --i) {
    value = (value << 8) | std::to_integer<std::uint64_t>(bytes[i - 1]);
  }
  return value;
}

// The library keeps the last of two equal keys in silence; here they are an error. Also stops
// before deep nesting costs anything.
class KeyWatch {
 public:
  bool operator()(int depth, json::parse_event_t event, const json& parsed) {
    if (depth > kMaxDepth) too_deep_ = true;
    if (event == json::parse_event_t::object_start) keys_.emplace_back();
    if (event == json::parse_event_t::object_end && !keys_.empty()) keys_.pop_back();
    if (event == json::parse_event_t::key && !keys_.empty() &&
        !keys_.back().insert(parsed.get<std::string>()).second) {
      twice_ = parsed.get<std::string>();
    }
    return !too_deep_;
  }
  bool too_deep() const { return too_deep_; }
  const std::optional<std::string>& twice() const { return twice_; }

 private:
  std::vector<std::set<std::string>> keys_;
  std::optional<std::string> twice_;
  bool too_deep_ = false;
};

Result<json> parse_header(std::string_view text) {
  KeyWatch watch;
  json header = json::parse(text, std::ref(watch), /*allow_exceptions=*/false);
  if (watch.too_deep()) return bad_header("the header is nested too deeply");
  if (header.is_discarded() || !header.is_object())
    return bad_header("the header is no JSON object");
  if (watch.twice()) return bad_header(fmt::format("the header names `{}` twice", *watch.twice()));
  return header;
}

Result<Metadata> read_metadata(const json& node) {
  if (!node.is_object()) return bad_header("__metadata__ is no object");
  Metadata metadata;
  for (const auto& [key, value] : node.items()) {
    if (!value.is_string()) return bad_header(fmt::format("__metadata__.{} is no text", key));
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

// Numbers that are whole, not negative and fit.
std::optional<std::uint64_t> read_count(const json& node) {
  if (!node.is_number_unsigned()) return std::nullopt;
  const auto value = node.get<std::uint64_t>();
  if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return std::nullopt;
  }
  return value;
}

std::optional<Shape> read_shape(const json& node) {
  if (!node.is_array()) return std::nullopt;
  Shape shape;
  for (const json& extent : node) {
    const auto count = read_count(extent);
    if (!count) return std::nullopt;
    shape.push_back(static_cast<std::int64_t>(*count));
  }
  return shape;
}

// Bytes of a tensor, or nothing where that number does not fit.
std::optional<std::uint64_t> byte_count(DType dtype, const Shape& shape) {
  std::uint64_t bytes = size_of(dtype);
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) {
      return std::nullopt;
    }
  }
  return bytes;
}

Result<DType> read_dtype(const std::string& name, const json& node) {
  constexpr std::string_view kOthers[] = {"BOOL", "I8",      "I16",     "U16",     "U32",
                                          "U64",  "F8_E4M3", "F8_E5M2", "F8_E8M0", "C64",
                                          "F4",   "F6_E2M3", "F6_E3M2"};
  if (!node.is_string()) return bad_header(fmt::format("tensor `{}` has no dtype", name));
  const auto text = node.get<std::string>();
  if (const auto dtype = dtype_from_string(text)) return *dtype;
  if (std::find(std::begin(kOthers), std::end(kOthers), text) == std::end(kOthers)) {
    return bad_header(fmt::format("tensor `{}` has the unknown dtype `{}`", name, text));
  }
  return fail(ErrorCode::kUnsupported,
              fmt::format("[checkpoint/safetensors] tensor `{}` is {}, which muster cannot hold; "
                          "convert it to F32 or I64 first",
                          name, text));
}

Result<SafetensorsEntry> read_entry(const std::string& name, const json& node) {
  constexpr std::size_t kFields = 3;
  if (!node.is_object() || node.size() != kFields || !node.contains("dtype") ||
      !node.contains("shape") || !node.contains("data_offsets")) {
    return bad_header(fmt::format("tensor `{}` is not {{dtype, shape, data_offsets}}", name));
  }
  SafetensorsEntry entry{name, {}, {}, 0, 0};
  MUSTER_ASSIGN(entry.dtype, read_dtype(name, node["dtype"]));
  auto shape = read_shape(node["shape"]);
  if (!shape) return bad_header(fmt::format("tensor `{}` has a malformed shape", name));
  entry.shape = std::move(*shape);
  const json& offsets = node["data_offsets"];
  const bool pair = offsets.is_array() && offsets.size() == 2;
  const auto begin = pair ? read_count(offsets[0]) : std::nullopt;
  const auto end = pair ? read_count(offsets[1]) : std::nullopt;
  if (!begin || !end) {
    return bad_header(fmt::format("tensor `{}` has malformed data_offsets", name));
  }
  entry.begin = *begin;
  entry.end = *end;
  const auto bytes = byte_count(entry.dtype, entry.shape);
  if (!bytes || entry.end < entry.begin || entry.end - entry.begin != *bytes) {
    return bad_header(
        fmt::format("tensor `{}`: data_offsets {} to {} are not the size of its shape", name,
                    entry.begin, entry.end));
  }
  return entry;
}

// Every byte of the data belongs to exactly one tensor.
Status check_tiling(const SafetensorsHeader& header, std::uint64_t data_bytes) {
  std::uint64_t at = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    if (entry.begin != at) {
      return bad_header(fmt::format("{} before tensor `{}` at byte {} of the data",
                                    entry.begin > at ? "hole" : "overlap", entry.name,
                                    entry.begin));
    }
    at = entry.end;
  }
  if (at != data_bytes) {
    return bad_header(fmt::format("the tensors take {} bytes, the file holds {}", at, data_bytes));
  }
  return ok();
}

}  // namespace

std::string encode_safetensors_header(std::span<const NamedTensor> tensors,
                                      const Metadata& metadata) {
  OrderedJson header = OrderedJson::object();
  if (!metadata.empty()) header[std::string(kMetadataKey)] = metadata;
  std::uint64_t at = 0;
  for (const auto& [name, tensor] : tensors) {
    MUSTER_CHECK(!header.contains(name) && name != kMetadataKey, name);
    const std::uint64_t end = at + tensor.bytes.size();
    header[name] = {
        {"dtype", to_string(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = header.dump();
  text.resize(round_up(text.size(), kHeaderAlignment), ' ');
  return little_endian(text.size()) + text;
}

Result<SafetensorsHeader> decode_safetensors_header(std::string_view text,
                                                    std::uint64_t file_size) {
  MUSTER_ASSIGN(const json parsed, parse_header(text));
  SafetensorsHeader header;
  header.data_begin = kLengthBytes + text.size();
  if (header.data_begin > file_size) return bad_header("the header is longer than the file");
  for (const auto& [name, node] : parsed.items()) {
    if (name == kMetadataKey) {
      MUSTER_ASSIGN(header.metadata, read_metadata(node));
    } else {
      MUSTER_ASSIGN(SafetensorsEntry entry, read_entry(name, node));
      header.entries.push_back(std::move(entry));
    }
  }
  std::sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  MUSTER_TRY(check_tiling(header, file_size - header.data_begin));
  for (SafetensorsEntry& entry : header.entries) {
    entry.begin += header.data_begin;
    entry.end += header.data_begin;
  }
  return header;
}

Result<SafetensorsHeader> read_safetensors_header(Files& files, const Path& path) {
  MUSTER_ASSIGN(const std::uint64_t size, files.size(path));
  std::array<std::byte, kLengthBytes> prefix{};
  MUSTER_ASSIGN(const std::size_t got, files.read_at(path, 0, prefix));
  const std::uint64_t length = from_little_endian(prefix);
  if (got < kLengthBytes || length > kMaxSafetensorsHeader || length > size - kLengthBytes) {
    return with_context(bad_header("no header: too short, or its length is out of range"),
                        path.native());
  }
  std::string text(length, '\0');
  MUSTER_ASSIGN(const std::size_t read,
                files.read_at(path, kLengthBytes, std::as_writable_bytes(std::span(text))));
  if (read != length) return with_context(bad_header("the header is cut off"), path.native());
  auto header = decode_safetensors_header(text, size);
  if (!header) return with_context(std::move(header).error(), path.native());
  return header;
}

}  // namespace muster::checkpoint
