#pragma once
// Control messages as frame payloads: a CBOR array [version, kind, body] (RFC 8949, by
// nlohmann-json). Numbers are whole. Decoding takes any bytes: depth and sizes are bounded before
// anything is built.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "muster/base/result.h"

namespace muster::net {

using Bytes = std::vector<std::byte>;

Bytes encode_message(std::uint32_t version, std::string_view kind, const nlohmann::json& body);

// `body` receives the decoded body; returns the kind. kCorrupt: not such a message;
// kUnsupported: of another version.
Result<std::string> decode_message(std::uint32_t version, std::span<const std::byte> bytes,
                                   nlohmann::json& body);

}  // namespace muster::net
