#include "muster/job/text_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "muster/job/yaml.h"

namespace muster::job {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::uint32_t decode(std::string_view text, std::size_t length) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  std::uint32_t code = length == 1 ? byte(0) : byte(0) & (0x7Fu >> length);
  for (std::size_t at = 1; at < length; ++at) code = code << 6 | (byte(at) & 0x3Fu);
  return code;
}

class TextChecker {
 public:
  explicit TextChecker(std::shared_ptr<const Source> source) : source_(std::move(source)) {}

  std::vector<Diagnostic> check() {
    std::string_view rest = source_->text;
    if (rest.size() > kMaxJobBytes) {
      const std::string_view taken = rest.substr(0, kMaxJobBytes);
      const auto lines = std::count(taken.begin(), taken.end(), '\n');
      const auto column = taken.size() - (taken.rfind('\n') + 1);  // npos + 1 is 0
      report(static_cast<int>(lines) + 1, static_cast<int>(column) + 1,
             "the file has more than 1 MiB, the most that a job file may have",
             "is this really the job file?");
      return std::move(errors_);
    }
    const auto first = rest.find_first_not_of(" \t\r\n");
    json_ = first != std::string_view::npos && rest[first] == '{';
    for (int line = 1; !rest.empty() && errors_.size() < kMostErrors; ++line) {
      const auto end = std::min(rest.find('\n'), rest.size());
      check_line(line, rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return std::move(errors_);
  }

 private:
  static constexpr std::size_t kMostErrors = 20;

  void check_line(int line, std::string_view text) {
    if (line == 1 && text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
    if (text.ends_with('\r')) text.remove_suffix(1);
    check_start(line, text);
    for (std::size_t at = 0; at < text.size();) {
      const auto length = utf8_length(text.substr(at));
      if (length == 0) return report_byte(line, at, text[at]);
      const auto code = decode(text.substr(at), length);
      if ((code < 0x20 && code != '\t') || (code >= 0x7F && code < 0xA0)) {
        return report(line, static_cast<int>(at) + 1,
                      fmt::format("control character U+{:04X}", code),
                      "remove it, or write it as an escape inside double quotes");
      }
      at += length;
    }
  }

  void check_start(int line, std::string_view text) {
    const auto content = std::min(text.find_first_not_of(" \t"), text.size());
    const auto tab = text.substr(0, content).find('\t');
    if (!json_ && tab != std::string_view::npos && content < text.size()) {
      report(line, static_cast<int>(tab) + 1, "a tab in the indentation",
             "indent with spaces; YAML does not allow tabs here");
    }
    if (!content_seen_ && text.starts_with('%')) {
      report(line, 1, "directives (%YAML, %TAG) are not accepted", "remove this line");
    }
    content_seen_ = content_seen_ || (content < text.size() && text[content] != '#');
  }

  void report_byte(int line, std::size_t at, char byte) {
    report(line, static_cast<int>(at) + 1,
           fmt::format("byte 0x{:02X} is not UTF-8", static_cast<unsigned char>(byte)),
           "save the file as UTF-8");
  }

  void report(int line, int column, std::string message, std::string help) {
    errors_.push_back({{source_, line, column, 1}, std::move(message), std::move(help)});
  }

  std::shared_ptr<const Source> source_;
  bool json_ = false;
  bool content_seen_ = false;
  std::vector<Diagnostic> errors_;
};

}  // namespace

std::size_t utf8_length(std::string_view text) noexcept {
  if (text.empty()) return 0;
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t length = lead < 0x80   ? 1
                             : lead < 0xC2 ? 0
                             : lead < 0xE0 ? 2
                             : lead < 0xF0 ? 3
                             : lead < 0xF5 ? 4
                                           : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t at = 1; at < length; ++at) {
    if ((static_cast<unsigned char>(text[at]) & 0xC0) != 0x80) return 0;
  }
  const auto code = decode(text, length);
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return overlong || surrogate || code > 0x10FFFF ? 0 : length;
}

std::vector<Diagnostic> check_text(const std::shared_ptr<const Source>& source) {
  return TextChecker(source).check();
}

}  // namespace muster::job
