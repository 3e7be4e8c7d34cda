#include "muster/observe/record_codec.h"

#include "muster/base/cbor.h"
#include "muster/observe/record_value.h"

namespace muster::observe {
namespace {

constexpr int kDeepest = 8;  // records nest three deep

}  // namespace

std::vector<std::byte> encode(std::span<const Record> records) {
  Value list = Value::array();
  for (const Record& record : records) list.push_back(to_value(record));
  const std::vector<std::uint8_t> bytes = Value::to_cbor(list);
  const auto view = std::as_bytes(std::span(bytes));
  return {view.begin(), view.end()};
}

Result<std::vector<Record>> decode(std::span<const std::byte> bytes) {
  const Value list = parse_cbor<Value>(bytes, kDeepest, Fractions::kTaken);
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
