#pragma once
// CBOR (RFC 8949) from strangers, into nlohmann's values. The library's parser recurses and
// believes announced sizes, so a dry run goes first. Header-only: both kinds of its objects are in
// use.

#include <cstdint>
#include <exception>
#include <nlohmann/json.hpp>
#include <span>

namespace muster {

// The library casts a fraction to whatever whole number its reader asks for, also where it does not
// fit: who reads none takes none.
enum class Fractions : bool { kRefused, kTaken };

// Follows the parser without building anything; stops at nesting and at announced sizes that the
// bytes cannot hold.
template <class Json>
class CborBounds final : public nlohmann::json_sax<Json> {
 public:
  using Sax = nlohmann::json_sax<Json>;
  CborBounds(std::size_t bytes, int deepest, Fractions fractions)
      : bytes_(bytes), deepest_(deepest), fractions_(fractions) {}
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(typename Sax::number_integer_t) override { return true; }
  bool number_unsigned(typename Sax::number_unsigned_t) override { return true; }
  bool number_float(typename Sax::number_float_t, const typename Sax::string_t&) override {
    return fractions_ == Fractions::kTaken;
  }
  bool string(typename Sax::string_t&) override { return true; }
  bool binary(typename Sax::binary_t&) override { return true; }
  bool key(typename Sax::string_t&) override { return true; }
  bool start_object(std::size_t elements) override { return enter(elements); }
  bool start_array(std::size_t elements) override { return enter(elements); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  static constexpr std::size_t kUnknownSize = static_cast<std::size_t>(-1);
  bool enter(std::size_t elements) {
    return ++depth_ <= deepest_ && (elements == kUnknownSize || elements <= bytes_);
  }
  bool leave() { return --depth_ >= 0; }

  const std::size_t bytes_;
  const int deepest_;
  const Fractions fractions_;
  int depth_ = 0;
};

// Discarded (is_discarded()) for anything but one whole value of at most `deepest` levels.
template <class Json>
Json parse_cbor(std::span<const std::byte> bytes, int deepest, Fractions fractions) {
  const auto* begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const auto* end = begin + bytes.size();
  CborBounds<Json> bounds(bytes.size(), deepest, fractions);
  try {
    if (!bytes.empty() && Json::sax_parse(begin, end, &bounds, Json::input_format_t::cbor))
      return Json::from_cbor(begin, end, true, false);
  } catch (const std::exception&) {  // of the library, where its checks come late
  }
  return Json(Json::value_t::discarded);
}

}  // namespace muster
