#include "muster/checkpoint/manifest.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "muster/base/files.h"
#include "muster/base/hash.h"
#include "muster/base/round_up.h"

namespace muster::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kBeforeDigest = R"({"sha256": ")";
constexpr std::string_view kAfterDigest = "\",\n";
constexpr std::string_view kBeforeBody = R"( "manifest": )";
constexpr std::string_view kAfterBody = "}\n";
constexpr std::size_t kDigestDigits = 64;
constexpr std::size_t kHead = kBeforeDigest.size() + kDigestDigits + kAfterDigest.size();

constexpr std::string_view kHere = "[checkpoint/manifest] ";

Error bad_manifest(std::string_view what) {
  return fail(ErrorCode::kCorrupt, fmt::format("{}{}", kHere, what));
}

std::string digest_of(std::string_view text) {
  return to_hex(sha256(std::as_bytes(std::span(text))));
}

Json to_json(const std::vector<TensorRecord>& tensors) {
  Json list = Json::array();
  for (const TensorRecord& tensor : tensors) {
    list.push_back({{"name", tensor.name},
                    {"dtype", to_string(tensor.dtype)},
                    {"shape", tensor.shape},
                    {"file", tensor.file}});
  }
  return list;
}

Json to_json(const std::vector<FileRecord>& files) {
  Json list = Json::array();
  for (const FileRecord& file : files) {
    list.push_back({{"name", file.name},
                    {"size", file.size},
                    {"sha256", file.sha256},
                    {"chunks", file.chunks}});
  }
  return list;
}

// Names of files are plain: a manifest never leads out of its folder.
std::string read_file_name(const Json& node) {
  auto name = node.get<std::string>();
  if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos) {
    throw std::invalid_argument(fmt::format("`{}` is no name of a file", name));
  }
  return name;
}

std::vector<TensorRecord> read_tensors(const Json& list) {
  std::vector<TensorRecord> tensors;
  for (const Json& node : list) {
    const auto dtype = dtype_from_string(node.at("dtype").get<std::string>());
    if (!dtype) throw std::invalid_argument("unknown dtype");
    tensors.push_back({node.at("name").get<std::string>(), *dtype, node.at("shape").get<Shape>(),
                       read_file_name(node.at("file"))});
  }
  return tensors;
}

std::vector<FileRecord> read_files(const Json& list) {
  std::vector<FileRecord> files;
  for (const Json& node : list) {
    FileRecord file{read_file_name(node.at("name")), node.at("size").get<std::uint64_t>(),
                    node.at("sha256").get<std::string>(),
                    node.at("chunks").get<std::vector<std::string>>()};
    if (file.chunks.size() != ceil_div(file.size, kChunkBytes)) {
      throw std::invalid_argument(fmt::format("`{}` has the wrong number of chunks", file.name));
    }
    files.push_back(std::move(file));
  }
  return files;
}

Manifest read_body(const Json& body) {
  Manifest manifest;
  manifest.job = body.at("job").get<std::string>();
  manifest.step = Step{body.at("step").get<std::int64_t>()};
  manifest.generation = Generation{body.at("generation").get<std::uint64_t>()};
  manifest.created = body.at("created").get<std::string>();
  manifest.state = body.at("state").dump();
  manifest.model = read_tensors(body.at("model"));
  manifest.optimizer = read_tensors(body.at("optimizer"));
  manifest.files = read_files(body.at("files"));
  return manifest;
}

// Everything but the JSON itself: the first line is exactly what it has to be for what follows.
Status check_digest(std::string_view text) {
  if (text.size() < kHead || !text.starts_with(kBeforeDigest))
    return bad_manifest("its first line, the digest, is damaged");
  const std::string_view rest = text.substr(kHead);
  const std::string head = fmt::format("{}{}{}", kBeforeDigest, digest_of(rest), kAfterDigest);
  if (text.substr(0, kHead) != head) return bad_manifest("its content is not what its digest says");
  return ok();
}

}  // namespace

std::uint64_t Manifest::bytes() const noexcept {
  return std::accumulate(files.begin(), files.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const FileRecord& file) { return sum + file.size; });
}

Result<std::string> encode_manifest(const Manifest& manifest) {
  const Json state = Json::parse(manifest.state, nullptr, /*allow_exceptions=*/false);
  if (!state.is_object()) {
    return fail(ErrorCode::kInvalid, "[checkpoint/manifest] the trainer's state is no JSON object");
  }
  const Json body = {{"format", kManifestFormat},
                     {"job", manifest.job},
                     {"step", to_int(manifest.step)},
                     {"generation", to_int(manifest.generation)},
                     {"created", manifest.created},
                     {"state", state},
                     {"files", to_json(manifest.files)},
                     {"model", to_json(manifest.model)},
                     {"optimizer", to_json(manifest.optimizer)}};
  const std::string rest = fmt::format(
      "{}{}{}", kBeforeBody, body.dump(1, ' ', false, Json::error_handler_t::replace), kAfterBody);
  return fmt::format("{}{}{}{}", kBeforeDigest, digest_of(rest), kAfterDigest, rest);
}

Result<Manifest> decode_manifest(std::string_view text) {
  MUSTER_TRY(check_digest(text));
  const Json document = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() || !document.contains("manifest"))
    return bad_manifest("no JSON object");
  try {
    const Json& body = document.at("manifest");
    const int format = body.at("format").get<int>();
    if (format != kManifestFormat) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("{}format {}, this muster reads {}; use the version that wrote it",
                              kHere, format, kManifestFormat));
    }
    return read_body(body);
  } catch (const std::exception& error) {  // the JSON library's way to say: not that type
    return bad_manifest(error.what());
  }
}

Result<Manifest> read_manifest(Files& files, const Path& folder) {
  const Path path = folder / kManifestName;
  MUSTER_ASSIGN(const std::string text, files.read(path));
  auto manifest = decode_manifest(text);
  if (manifest) return manifest;
  Error why = std::move(manifest).error();
  why.message.insert(kHere.size(), path.native() + ": ");
  return why;
}

}  // namespace muster::checkpoint
