#include "muster/job/surrogates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

namespace muster::job {
namespace {

constexpr char kHidden = '\xC0';
constexpr std::size_t kEscape = std::string_view("\\ud83d").size();

bool is_among(char c, std::string_view characters) { return characters.find(c) != characters.npos; }

// Whether the text begins with U+D800 to U+DFFF, escaped.
bool begins_with_surrogate(std::string_view text) {
  return text.size() >= kEscape && text.starts_with("\\u") && is_among(text[2], "dD") &&
         is_among(text[3], "89abcdefABCDEF") &&
         std::ranges::all_of(text.substr(4, kEscape - 4),
                             [](unsigned char c) { return std::isxdigit(c) != 0; });
}

// Empty where they are no pair.
std::string character_of(std::string_view halves) {
  if (halves.size() < 2 * kEscape || halves[kEscape] != kHidden) return {};
  const auto read = nlohmann::json::parse(
      fmt::format("\"{}\"", shown_surrogates(std::string(halves))), nullptr, false);
  return read.is_string() ? read.get<std::string>() : std::string();
}

}  // namespace

void hide_surrogates(std::string& text) {
  for (auto at = text.find('\\'); at != text.npos; at = text.find('\\', at)) {
    const std::string_view rest = std::string_view(text).substr(at);
    if (begins_with_surrogate(rest)) {
      text[at] = kHidden;
    } else {
      at += rest.starts_with("\\\\") ? 2 : 1;  // an escaped backslash begins no other escape
    }
  }
}

std::string shown_surrogates(std::string text) {
  std::ranges::replace(text, kHidden, '\\');
  return text;
}

Result<std::string> joined_surrogates(std::string_view text) {
  std::string joined;
  for (auto at = text.find(kHidden); at != text.npos; at = text.find(kHidden)) {
    const std::string character = character_of(text.substr(at, 2 * kEscape));
    if (character.empty())
      return fail(ErrorCode::kInvalid,
                  fmt::format("`{}` is half of a character",
                              shown_surrogates(std::string(text.substr(at, kEscape)))));
    joined += text.substr(0, at);
    joined += character;
    text.remove_prefix(at + 2 * kEscape);
  }
  joined += text;
  return joined;
}

}  // namespace muster::job
