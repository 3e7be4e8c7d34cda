#pragma once
// Text in UTF-8 (RFC 3629), character by character. Pure.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace muster {

// Whether a byte is not the first of its character.
constexpr bool continues_character(char byte) noexcept {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

// The front of `text`, of at most so many bytes, cut between characters.
std::string_view utf8_front(std::string_view text, std::size_t most) noexcept;

// The length of the valid character at the front of `text`; 0 where there is none.
std::size_t utf8_length(std::string_view text) noexcept;

// The number of the valid character of `length` bytes at the front of `text`.
std::uint32_t utf8_code(std::string_view text, std::size_t length) noexcept;

// How many bytes at the front of `text` are valid characters: all of a text in UTF-8.
std::size_t utf8_prefix(std::string_view text) noexcept;

}  // namespace muster
