#include "muster/net/message.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace muster::net {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 16;

// A dry run of the parser: stops at nesting and at announced sizes that the bytes cannot hold, so
// that the real one can neither exhaust the stack nor the memory.
class BoundsCheck : public nlohmann::json_sax<Json> {
 public:
  explicit BoundsCheck(std::size_t bytes) : bytes_(bytes) {}
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool key(string_t&) override { return true; }
  bool start_object(std::size_t elements) override { return enter(elements); }
  bool start_array(std::size_t elements) override { return enter(elements); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) override {
    return false;
  }

 private:
  static constexpr std::size_t kUnknownSize = static_cast<std::size_t>(-1);
  bool enter(std::size_t elements) {
    return ++depth_ <= kMaxDepth && (elements == kUnknownSize || elements <= bytes_);
  }
  bool leave() {
    --depth_;
    return true;
  }
  std::size_t bytes_;
  int depth_ = 0;
};

Error corrupt() {
  return fail(ErrorCode::kCorrupt,
              "[net/message] the payload is no control message; the sender runs other software or "
              "is damaged");
}

Json parse(std::span<const std::byte> bytes) {
  const auto* begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
  BoundsCheck bounds(bytes.size());
  try {
    if (!Json::sax_parse(begin, begin + bytes.size(), &bounds, Json::input_format_t::cbor))
      return Json(Json::value_t::discarded);
    return Json::from_cbor(begin, begin + bytes.size(), true, false);
  } catch (const std::exception&) {
    return Json(Json::value_t::discarded);
  }
}

}  // namespace

Bytes encode_message(std::uint32_t version, std::string_view kind, const Json& body) {
  const auto cbor = Json::to_cbor(Json::array({version, kind, body}));
  const auto* begin = reinterpret_cast<const std::byte*>(cbor.data());
  return Bytes(begin, begin + cbor.size());
}

Result<std::string> decode_message(std::uint32_t version, std::span<const std::byte> bytes,
                                   Json& body) {
  if (bytes.empty()) return corrupt();
  Json all = parse(bytes);
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
