#include "muster/net/message.h"

#include <fmt/format.h>

#include "muster/base/cbor.h"

namespace muster::net {
namespace {

using Json = nlohmann::json;

constexpr int kDeepest = 16;

Error corrupt() {
  return fail(ErrorCode::kCorrupt,
              "[net/message] the payload is no control message; the sender runs other software or "
              "is damaged");
}

}  // namespace

Bytes encode_message(std::uint32_t version, std::string_view kind, const Json& body) {
  const auto cbor = Json::to_cbor(Json::array({version, kind, body}));
  const auto* begin = reinterpret_cast<const std::byte*>(cbor.data());
  return Bytes(begin, begin + cbor.size());
}

Result<std::string> decode_message(std::uint32_t version, std::span<const std::byte> bytes,
                                   Json& body) {
  Json all = parse_cbor<Json>(bytes, kDeepest, Fractions::kRefused);
  if (!all.is_array() || all.size() != 3 || !all[0].is_number_unsigned() || !all[1].is_string())
    return corrupt();
  const auto theirs = all[0].get<std::uint64_t>();
  if (theirs != version)
    return fail(ErrorCode::kUnsupported,
                fmt::format("[net/message] the peer speaks version {} of the protocol, this is "
                            "version {}; run the same muster everywhere",
                            theirs, version));
  body = std::move(all[2]);
  return all[1].get<std::string>();
}

}  // namespace muster::net
