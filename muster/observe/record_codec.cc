#include "muster/observe/record_codec.h"

#include "muster/observe/record_value.h"

namespace muster::observe {
namespace {

// Stops the parser, which recurses, before nesting exhausts the stack. Records nest three deep.
class NestingCheck final : public nlohmann::json_sax<Value> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool key(string_t&) override { return true; }
  bool start_object(std::size_t) override { return ++depth_ <= kDeepest; }
  bool end_object() override { return --depth_ >= 0; }
  bool start_array(std::size_t) override { return ++depth_ <= kDeepest; }
  bool end_array() override { return --depth_ >= 0; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  static constexpr int kDeepest = 8;
  int depth_ = 0;
};

bool is_shallow(std::span<const std::uint8_t> bytes) {
  NestingCheck check;
  return Value::sax_parse(bytes.begin(), bytes.end(), &check, Value::input_format_t::cbor);
}

}  // namespace

std::vector<std::byte> encode(std::span<const Record> records) {
  Value list = Value::array();
  for (const Record& record : records) list.push_back(to_value(record));
  const std::vector<std::uint8_t> bytes = Value::to_cbor(list);
  const auto view = std::as_bytes(std::span(bytes));
  return {view.begin(), view.end()};
}

Result<std::vector<Record>> decode(std::span<const std::byte> bytes) {
  const std::span data(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  const Value list =
      is_shallow(data) ? Value::from_cbor(data.begin(), data.end(), true, false) : Value();
  if (!list.is_array()) {
    return fail(ErrorCode::kCorrupt, "[observe/decode] the bytes are not a list of records");
  }
  std::vector<Record> records;
  for (const Value& value : list) {
    MUSTER_ASSIGN(Record record, from_value(value));
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace muster::observe
