#include "muster/net/frame.h"

#include <fmt/format.h>

#include <string_view>

#include "muster/base/random.h"

namespace muster::net {
namespace {

constexpr std::uint16_t kMagic = 0x466d;  // "mF"
constexpr std::size_t kChecksumAt = 52;

class Writer {
 public:
  explicit Writer(std::span<std::byte> into) : into_(into) {}
  template <class Int>
  void put(Int value) {
    for (std::size_t i = 0; i < sizeof(Int); ++i)
      into_[at_++] = static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i));
  }

 private:
  std::span<std::byte> into_;
  std::size_t at_ = 0;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> from) : from_(from) {}
  template <class Int>
  Int get() {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < sizeof(Int); ++i)
      value |= static_cast<std::uint64_t>(from_[at_++]) << (8 * i);
    return static_cast<Int>(value);
  }

 private:
  std::span<const std::byte> from_;
  std::size_t at_ = 0;
};

std::uint32_t checksum(std::span<const std::byte> header) {
  const auto hash =
      stable_hash(std::string_view(reinterpret_cast<const char*>(header.data()), kChecksumAt));
  return static_cast<std::uint32_t>(hash ^ (hash >> 32));
}

Error corrupt(std::string_view what) {
  return fail(ErrorCode::kCorrupt,
              fmt::format("[net/frame] {}: this is no frame of muster, or the stream has lost its "
                          "place; the connection must be closed",
                          what));
}

}  // namespace

std::array<std::byte, kHeaderBytes> encode_header(const FrameHeader& header) noexcept {
  std::array<std::byte, kHeaderBytes> bytes{};
  Writer writer(bytes);
  writer.put(kMagic);
  writer.put(kFrameVersion);
  writer.put(header.kind);
  writer.put(std::uint16_t{0});
  writer.put(header.job);
  writer.put(to_int(header.generation));
  writer.put(to_int(header.sender));
  writer.put(header.context);
  writer.put(header.tag);
  writer.put(std::uint32_t{0});
  writer.put(header.length);
  writer.put(header.sequence);
  writer.put(checksum(bytes));
  return bytes;
}

Result<FrameHeader> decode_header(std::span<const std::byte, kHeaderBytes> bytes) {
  Reader reader(bytes);
  if (reader.get<std::uint16_t>() != kMagic) return corrupt("wrong magic");
  const auto version = reader.get<std::uint16_t>();
  if (version != kFrameVersion) return corrupt(fmt::format("frame version {}", version));
  if (Reader(bytes.subspan(kChecksumAt)).get<std::uint32_t>() != checksum(bytes))
    return corrupt("wrong header checksum");
  FrameHeader header;
  header.kind = reader.get<std::uint16_t>();
  if (reader.get<std::uint16_t>() != 0) return corrupt("reserved bits are set");
  header.job = reader.get<std::uint64_t>();
  header.generation = Generation{reader.get<std::uint64_t>()};
  header.sender = Rank{reader.get<std::int32_t>()};
  header.context = reader.get<std::uint32_t>();
  header.tag = reader.get<std::uint32_t>();
  if (reader.get<std::uint32_t>() != 0) return corrupt("reserved bits are set");
  header.length = reader.get<std::uint64_t>();
  header.sequence = reader.get<std::uint32_t>();
  if (to_int(header.sender) < -1) return corrupt("negative sender");
  return header;
}

Status check_frame(const FrameHeader& header, const FramePolicy& policy) {
  if (header.job != policy.job)
    return fail(ErrorCode::kInvalid,
                fmt::format("[net/frame] a frame of job {:016x} came to job {:016x}; two jobs use "
                            "the same address",
                            header.job, policy.job),
                header.sender);
  if (header.length > policy.max_length)
    return fail(ErrorCode::kInvalid,
                fmt::format("[net/frame] rank {} announced a payload of {} bytes, the limit is {}",
                            to_int(header.sender), header.length, policy.max_length),
                header.sender);
  if (header.generation < policy.oldest)
    return fail(
        ErrorCode::kStale,
        fmt::format("[net/frame] rank {} sent a frame of generation {}, now is {}",
                    to_int(header.sender), to_int(header.generation), to_int(policy.oldest)),
        header.sender);
  return ok();
}

}  // namespace muster::net
