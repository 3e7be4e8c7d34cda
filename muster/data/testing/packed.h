#pragma once
// Pieces of files for the tests of formats.

#include <libdeflate.h>

#include <cstdint>
#include <memory>
#include <string>

namespace muster::data {

inline std::string big_endian(std::uint32_t value) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(value >> shift);
  return text;
}

// One member; at level 0 its size is that of any other text of this length.
inline std::string gzip(const std::string& text, int level = 6) {
  const std::unique_ptr<libdeflate_compressor, void (*)(libdeflate_compressor*)> compressor(
      libdeflate_alloc_compressor(level), libdeflate_free_compressor);
  std::string packed(libdeflate_gzip_compress_bound(compressor.get(), text.size()), '\0');
  packed.resize(libdeflate_gzip_compress(compressor.get(), text.data(), text.size(), packed.data(),
                                         packed.size()));
  return packed;
}

}  // namespace muster::data
