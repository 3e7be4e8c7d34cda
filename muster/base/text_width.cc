#include "muster/base/text_width.h"

#include <locale.h>

#include <algorithm>
#include <cwchar>

#include "muster/base/utf8.h"

namespace muster {
namespace {

// What wcwidth() knows depends on the locale, which programs of a user's may have set otherwise.
class Utf8Locale {  // of this thread, while it lives
 public:
  Utf8Locale() : before_(::uselocale(shared() != locale_t{} ? shared() : LC_GLOBAL_LOCALE)) {}
  ~Utf8Locale() { ::uselocale(before_); }
  Utf8Locale(const Utf8Locale&) = delete;
  Utf8Locale& operator=(const Utf8Locale&) = delete;

 private:
  static locale_t shared() {
    static const locale_t locale = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", locale_t{});
    return locale;
  }

  locale_t before_;
};

struct Character {
  std::size_t bytes = 1;
  std::size_t columns = 1;
};

// One that the locale does not know ends before the next that could be one.
std::size_t bytes_of_unknown(std::string_view text) {
  std::size_t bytes = 1;
  while (bytes < text.size() && continues_character(text[bytes])) ++bytes;
  return bytes;
}

Character first_of(std::string_view text) {
  wchar_t wide = 0;
  std::mbstate_t state{};
  const std::size_t bytes = std::mbrtowc(&wide, text.data(), text.size(), &state);
  if (bytes == 0) return {};
  if (bytes > text.size()) return {bytes_of_unknown(text), 1};
  const int columns = ::wcwidth(wide);
  return {bytes, columns < 0 ? 1 : static_cast<std::size_t>(columns)};
}

constexpr std::size_t kFurtherIn = 2;  // columns: what stands behind a line that was broken

std::string_view word_of(std::string_view line) { return line.substr(0, line.find(' ')); }

// A word, or several that stand between back ticks.
std::string_view word_or_quotation(std::string_view line) {
  std::string_view word = word_of(line);
  while (word.size() < line.size() && std::ranges::count(word, '`') % 2 == 1) {
    const auto closed = line.find('`', word.size());
    if (closed == line.npos) return word_of(line);
    word = line.substr(0, line.find(' ', closed));
  }
  return word;
}

using FirstWord = std::string_view (*)(std::string_view line);

void wrap_line(std::string_view line, std::size_t width, FirstWord first_word,
               std::vector<std::string>& lines) {
  lines.emplace_back();
  for (std::size_t taken = 0;;) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (line.empty()) return;
    const std::string_view word = first_word(line);
    const std::size_t columns = display_width(word);
    if (taken > 0 && taken + 1 + columns > width) {
      lines.emplace_back();
      taken = 0;
    }
    lines.back().append(taken > 0 ? " " : "").append(word);
    taken += (taken > 0 ? 1 : 0) + columns;
    line.remove_prefix(word.size());
  }
}

}  // namespace

std::size_t display_width(std::string_view text) {
  const Utf8Locale utf8;
  std::size_t columns = 0;
  while (!text.empty()) {
    const Character first = first_of(text);
    columns += first.columns;
    text.remove_prefix(first.bytes);
  }
  return columns;
}

std::string_view cut_to_width(std::string_view text, std::size_t columns) {
  const Utf8Locale utf8;
  std::size_t bytes = 0;
  while (bytes < text.size()) {
    const Character next = first_of(text.substr(bytes));
    if (next.columns > columns) break;
    columns -= next.columns;
    bytes += next.bytes;
  }
  return text.substr(0, bytes);
}

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  for (;;) {
    const auto end = text.find('\n');
    wrap_line(text.substr(0, end), width, word_of, lines);
    if (end == text.npos) return lines;
    text.remove_prefix(end + 1);
  }
}

namespace {

std::string joined(const std::vector<std::string>& lines, std::size_t indent) {
  std::string whole = lines.front();
  for (std::size_t i = 1; i < lines.size(); ++i)
    whole += "\n" + std::string(lines[i].empty() ? 0 : indent, ' ') + lines[i];
  return whole;
}

std::string fitted_line(std::string_view line, std::size_t width) {
  const auto indent = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t further = indent + kFurtherIn;
  if (display_width(line) <= width || width <= further) return std::string(line);
  std::vector<std::string> lines;
  wrap_line(line.substr(indent), width - further, word_or_quotation, lines);
  return std::string(indent, ' ') + joined(lines, further);
}

}  // namespace

std::string wrapped_behind(std::string_view text, std::size_t width, std::size_t indent) {
  return joined(wrapped(text, width > indent ? width - indent : 1), indent);
}

std::string fitted(std::string_view text, std::size_t width) {
  if (width == 0) return std::string(text);
  std::string lines;
  for (;;) {
    const auto end = text.find('\n');
    lines += fitted_line(text.substr(0, end), width);
    if (end == text.npos) return lines;
    lines += '\n';
    text.remove_prefix(end + 1);
  }
}

}  // namespace muster
