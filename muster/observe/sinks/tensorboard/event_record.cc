#include "muster/observe/sinks/tensorboard/event_record.h"

#include <array>
#include <bit>

namespace muster::observe {
namespace {

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ ((rest & 1) != 0 ? 0x82F63B78u : 0u);
    table[byte] = rest;
  }
  return table;
}
constexpr auto kTable = make_table();

// Of what holds checksums itself a plain one would be weak.
std::uint32_t masked(std::uint32_t crc) noexcept { return std::rotr(crc, 15) + 0xA282EAD8u; }

template <class Unsigned>
void append_fixed(std::string& into, Unsigned value) {
  for (std::size_t byte = 0; byte < sizeof value; ++byte)
    into.push_back(static_cast<char>(static_cast<unsigned char>(value >> (8 * byte))));
}

void append_varint(std::string& into, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    into.push_back(static_cast<char>(static_cast<unsigned char>(value | 0x80)));
  into.push_back(static_cast<char>(value));
}

// Kinds of fields on the wire.
enum Wire : std::uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void append_key(std::string& into, std::uint32_t field, Wire wire) {
  append_varint(into, field << 3 | wire);
}

void append_bytes(std::string& into, std::uint32_t field, std::string_view bytes) {
  append_key(into, field, kBytes);
  append_varint(into, bytes.size());
  into += bytes;
}

std::string event_at(double seconds) {
  std::string event;
  append_key(event, 1, kFixed64);  // wall_time
  append_fixed(event, std::bit_cast<std::uint64_t>(seconds));
  return event;
}

std::string framed(std::string_view message) {
  std::string record;
  append_fixed(record, static_cast<std::uint64_t>(message.size()));
  append_fixed(record, masked(crc32c(record)));
  record += message;
  append_fixed(record, masked(crc32c(message)));
  return record;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) noexcept {
  std::uint32_t crc = ~0u;
  for (const char c : bytes)
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(c)) & 0xFF];
  return ~crc;
}

std::string version_record(double seconds) {
  std::string event = event_at(seconds);
  append_bytes(event, 3, "brain.Event:2");  // file_version
  return framed(event);
}

std::string restart_record(double seconds, std::int64_t step) {
  std::string session;
  append_key(session, 1, kVarint);  // status
  append_varint(session, 1);        // START
  std::string event = event_at(seconds);
  append_key(event, 2, kVarint);  // step: from which on it is forgotten
  append_varint(event, static_cast<std::uint64_t>(step) + 1);
  append_bytes(event, 7, session);  // session_log
  return framed(event);
}

std::string scalar_record(double seconds, std::int64_t step, std::span<const Metric> values) {
  std::string summary;
  for (const Metric& metric : values) {
    std::string value;
    append_bytes(value, 1, metric.name);  // tag
    append_key(value, 2, kFixed32);       // simple_value
    append_fixed(value, std::bit_cast<std::uint32_t>(static_cast<float>(metric.value)));
    append_bytes(summary, 1, value);
  }
  std::string event = event_at(seconds);
  append_key(event, 2, kVarint);  // step
  append_varint(event, static_cast<std::uint64_t>(step));
  append_bytes(event, 5, summary);
  return framed(event);
}

}  // namespace muster::observe
