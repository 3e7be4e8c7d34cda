#include "muster/job/text_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "muster/base/trimmed.h"
#include "muster/base/utf8.h"
#include "muster/job/yaml.h"

namespace muster::job {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::size_t indentation(std::string_view line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

// Whether a block of text (`key: |`) begins below the line.
bool opens_block(std::string_view line) {
  const auto mark = line.find_first_of("|>");
  if (mark == line.npos) return false;
  std::string_view before = line.substr(0, mark);
  if (!before.ends_with(' ') || before.find(" #") != before.npos) return false;
  before = trimmed(before, " ");
  if (before.starts_with('#')) return false;
  if (!before.ends_with(':') && !before.ends_with('-')) return false;
  std::string_view behind = line.substr(mark + 1);
  behind.remove_prefix(std::min(behind.find_first_not_of("+-123456789"), behind.size()));
  const auto content = behind.find_first_not_of(" \t");
  return content == behind.npos || (content > 0 && behind[content] == '#');
}

// Follows which lines are text of a block, whose tabs are its own.
class BlockTracker {
 public:
  // How many bytes of the line may be indentation: those before the text of a block, else all.
  std::size_t indentation_of(std::string_view line) {
    const auto blanks = indentation(line);
    if (in_block_ && blanks < line.size()) {
      if (text_from_ == 0 && blanks > parent_) text_from_ = blanks;
      if (text_from_ > 0 && blanks >= text_from_) return text_from_;
      in_block_ = false;
    }
    if (!in_block_ && opens_block(line)) {
      in_block_ = true;
      parent_ = blanks;
      text_from_ = 0;
    }
    return line.size();
  }

 private:
  bool in_block_ = false;
  std::size_t parent_ = 0;     // indentation of the line that opened it
  std::size_t text_from_ = 0;  // indentation of its text; 0: not seen yet
};

class TextChecker {
 public:
  explicit TextChecker(std::shared_ptr<const Source> source) : source_(std::move(source)) {
    found_.text = source_->text;
  }

  CheckedText check() {
    std::string_view rest = source_->text;
    if (rest.size() > kMaxJobBytes) {
      report_size(rest.substr(0, kMaxJobBytes));
      return std::move(found_);
    }
    const auto first = rest.find_first_not_of(" \t\r\n");
    json_ = first != std::string_view::npos && rest[first] == '{';
    for (line_ = 1; !rest.empty() && found_.readable; ++line_) {
      const auto end = std::min(rest.find('\n'), rest.size());
      begin_ = source_->text.size() - rest.size();
      check_line(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
      found_.readable = found_.errors.size() < kMostErrors;
      if (!found_.readable && !rest.empty()) report_rest();
    }
    return std::move(found_);
  }

 private:
  static constexpr std::size_t kMostErrors = 20;

  void report_size(std::string_view taken) {
    line_ = static_cast<int>(std::count(taken.begin(), taken.end(), '\n')) + 1;
    report(taken.size() - (taken.rfind('\n') + 1),  // npos + 1 is 0
           "the file has more than 1 MiB, the most that a job file may have",
           "is this really the job file?");
    found_.readable = false;
  }

  void report_rest() {
    ++line_;
    report(0, fmt::format("not read from here on, after {} errors", found_.errors.size()),
           "is this really the job file?");
  }

  // Of each line the first byte that belongs in no text is told, and all become blanks.
  void check_line(std::string_view text) {
    if (line_ == 1 && text.starts_with(kByteOrderMark)) {
      text.remove_prefix(kByteOrderMark.size());
      begin_ += kByteOrderMark.size();
    }
    if (text.ends_with('\r')) text.remove_suffix(1);
    check_start(text);
    bool told = false;
    for (std::size_t at = 0; at < text.size();) {
      const auto length = utf8_length(text.substr(at));
      const auto code = length == 0 ? 0 : utf8_code(text.substr(at), length);
      if (length > 0 && !is_control(code)) {
        at += length;
        continue;
      }
      if (!told) report_character(at, length, text[at], code);
      told = true;
      const auto end = at + std::max({std::size_t{1}, length, sequence_length(text.substr(at))});
      for (; at < end; ++at) blank(at, true);
    }
  }

  // Of a terminal's words, such as `ESC[31m` for red, whose bracket would open a list; 0: none.
  static std::size_t sequence_length(std::string_view text) {
    if (!text.starts_with("\x1b[")) return 0;
    const auto end = text.find_first_not_of("0123456789;?", 2);
    return end == text.npos ? text.size() : end + 1;
  }

  void check_start(std::string_view text) {
    const auto content = std::min(text.find_first_not_of(" \t"), text.size());
    const auto indented = std::min(content, blocks_.indentation_of(text));
    const auto tab = text.substr(0, indented).find('\t');
    if (!json_ && tab != std::string_view::npos && content < text.size()) {
      report(tab, "a tab in the indentation", "indent with spaces; YAML does not allow tabs here");
      for (auto at = tab; at < indented; ++at) blank(at, false);
    }
    if (!content_seen_ && text.starts_with('%')) {
      report(0, "directives (%YAML, %TAG) are not accepted", "remove this line");
      for (std::size_t at = 0; at < text.size(); ++at) blank(at, false);
    }
    content_seen_ = content_seen_ || (content < text.size() && text[content] != '#');
  }

  void blank(std::size_t at, bool spoils_word) {
    found_.text[begin_ + at] = ' ';
    if (spoils_word) found_.blanked.push_back({line_, static_cast<int>(at) + 1});
  }

  void report_character(std::size_t at, std::size_t length, char byte, std::uint32_t code) {
    if (length == 0)
      return report(at, fmt::format("byte 0x{:02X} is not UTF-8", static_cast<unsigned char>(byte)),
                    "save the file as UTF-8");
    report(at, fmt::format("control character U+{:04X}", code),
           "remove it, or write it as an escape inside double quotes");
  }

  void report(std::size_t at, std::string message, std::string help) {
    found_.errors.push_back(
        {{source_, line_, static_cast<int>(at) + 1, 1}, std::move(message), std::move(help)});
  }

  std::shared_ptr<const Source> source_;
  CheckedText found_;
  BlockTracker blocks_;
  int line_ = 1;
  std::size_t begin_ = 0;  // of the line, behind a byte order mark
  bool json_ = false;
  bool content_seen_ = false;
};

}  // namespace

bool CheckedText::touches(const Place& place) const noexcept {
  return std::ranges::any_of(blanked, [&](const Blanked& at) {
    return at.line == place.line && at.column >= place.column - 1 &&
           at.column <= place.column + place.length;
  });
}

bool CheckedText::is_blanked_behind(const Place& place) const noexcept {
  return std::ranges::any_of(blanked, [&](const Blanked& at) {
    return at.line == place.line && at.column >= place.column;
  });
}

bool is_control(std::uint32_t code) noexcept {
  const auto lies_in = [code](std::uint32_t first, std::uint32_t last) {
    return code >= first && code <= last;
  };
  const bool turns_text = code == 0x061C || lies_in(0x200E, 0x200F) || lies_in(0x202A, 0x202E) ||
                          lies_in(0x2066, 0x2069);
  return (code < 0x20 && code != '\t') || lies_in(0x7F, 0x9F) || turns_text;
}

CheckedText check_text(const std::shared_ptr<const Source>& source) {
  return TextChecker(source).check();
}

}  // namespace muster::job
