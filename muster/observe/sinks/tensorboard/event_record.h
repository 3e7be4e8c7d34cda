#pragma once
// A record of TensorBoard's event files: the message `Event` (tensorboard/compat/proto/event.proto)
// as protocol buffers encode it, framed as TFRecord: length (u64), masked CRC-32C of the length,
// message, masked CRC-32C of the message, all little-endian. Pure; any thread.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "muster/observe/metric.h"

namespace muster::observe {

// The first record of a file: says what the others are.
std::string version_record(double seconds);
// A training goes on after `step`, in a file of its own: what earlier files have of later steps no
// longer holds, and readers forget it.
std::string restart_record(double seconds, std::int64_t step);
// The values under their names, as scalars of `step`. `seconds` since the epoch.
std::string scalar_record(double seconds, std::int64_t step, std::span<const Metric> values);

// CRC-32C (Castagnoli; RFC 3720, B.4).
std::uint32_t crc32c(std::string_view bytes) noexcept;

}  // namespace muster::observe
