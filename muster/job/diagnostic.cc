#include "muster/job/diagnostic.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "muster/base/text_width.h"
#include "muster/base/units.h"
#include "muster/base/utf8.h"
#include "muster/job/text_check.h"

namespace muster::job {
namespace {

constexpr std::size_t kShownWidth = 160;  // bytes of a line that are shown
constexpr std::size_t kShownBehind = 80;  // of them behind the beginning of what is wrong
constexpr std::string_view kCut = "…";
constexpr std::size_t kExcerpt = 60;
constexpr std::size_t kLongestWord = 64;
constexpr std::ptrdiff_t kMostShown = 50;

std::string_view line_of(const Place& place) {
  std::string_view text = place.source->text;
  for (int line = 1; line < place.line; ++line) {
    const auto end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  text = text.substr(0, text.find('\n'));
  if (text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !continues_character(c); }));
}

// Where the part of a line begins that is shown: of one that is too long, what lies around its
// column.
std::size_t shown_from(const Place& place, std::string_view line) {
  const auto column = std::min<std::size_t>(std::max(place.column, 1) - 1, line.size());
  if (column + kShownBehind <= kShownWidth || line.size() <= kShownWidth) return 0;
  std::size_t begin = column - (kShownWidth - kShownBehind);
  while (begin < column && continues_character(line[begin])) ++begin;
  return begin;
}

// What a terminal can show of a line's beginning: a blank for each control character, U+FFFD for
// each byte that is no UTF-8.
std::string printable(std::string_view line) {
  std::string shown;
  line = utf8_front(line, kShownWidth);
  while (!line.empty()) {
    const auto length = utf8_length(line);
    const bool is_whole = length > 0;
    if (!is_whole)
      shown += "\uFFFD";
    else
      shown += is_control(utf8_code(line, length)) || line.front() == '\t' ? " "
                                                                           : line.substr(0, length);
    line.remove_prefix(is_whole ? length : 1);
  }
  return shown;
}

std::string underline(const Place& place, std::string_view line) {
  const auto from = shown_from(place, line);
  const auto column = std::min<std::size_t>(std::max(place.column, 1) - 1, line.size());
  const auto length = std::clamp<std::size_t>(std::max(place.length, 1), 1,
                                              std::max<std::size_t>(1, line.size() - column));
  const auto before = display_width(printable(line.substr(from, column - from)));
  const auto behind = std::max<std::size_t>(1, kShownWidth - (column - from));
  const auto marked = display_width(printable(line.substr(column, std::min(length, behind))));
  return std::string(before + (from > 0 ? display_width(kCut) : 0), ' ') + "^" +
         std::string(std::max<std::size_t>(1, marked) - 1, '~');
}

// A place in a file; of a flag or a variable, which an editor cannot show, its words.
nlohmann::ordered_json where(const Place& place) {
  const Source& source = *place.source;
  if (!source.label.empty())
    return {{"file", source.label}, {"line", place.line}, {"column", display_column(place)}};
  const bool is_flag = source.text.starts_with("--");
  const auto end = source.text.find(is_flag ? ' ' : '=');
  nlohmann::ordered_json entry = {{is_flag ? "flag" : "variable", source.text.substr(0, end)}};
  if (end != source.text.npos) entry["value"] = source.text.substr(end + 1);
  return entry;
}

std::string heading(const Place& place) {
  if (place.source->label.empty()) return {};
  if (place.line == 0) return place.source->label + ": ";
  return fmt::format("{}:{}:{}: ", place.source->label, place.line, display_column(place));
}

}  // namespace

std::string excerpt(std::string_view text) {
  if (text.size() <= kExcerpt) return printable(text);
  auto shown = text.substr(0, kExcerpt);
  while (!shown.empty() && continues_character(shown.back())) shown.remove_suffix(1);
  return printable(shown.substr(0, shown.size() - 1)) + "…";
}

std::string near_word(std::string_view word, const std::vector<std::string_view>& known) {
  return word.size() > kLongestWord ? std::string() : nearest(word, known);
}

int display_column(const Place& place) {
  if (place.line == 0) return 0;
  const auto line = line_of(place);
  const auto before = std::min<std::size_t>(std::max(place.column, 1) - 1, line.size());
  return static_cast<int>(characters(line.substr(0, before))) + 1;
}

void sort_by_place(std::vector<Diagnostic>& diagnostics) {
  std::stable_sort(diagnostics.begin(), diagnostics.end(),
                   [](const Diagnostic& a, const Diagnostic& b) {
                     return std::tuple(a.place.source->order, a.place.line, a.place.column) <
                            std::tuple(b.place.source->order, b.place.line, b.place.column);
                   });
}

std::string render(const Diagnostic& diagnostic) {
  const Place& place = diagnostic.place;
  std::string text = heading(place) + diagnostic.message + "\n";
  if (place.line > 0) {
    const auto line = line_of(place);
    const auto number = place.source->label.empty() ? std::string() : std::to_string(place.line);
    const auto from = shown_from(place, line);
    text +=
        fmt::format("{:>5} | {}{}\n", number, from > 0 ? kCut : "", printable(line.substr(from)));
    text += fmt::format("{:>5} | {}\n", "", underline(place, line));
  }
  if (!diagnostic.help.empty()) text += fmt::format("{:>5} = {}\n", "", diagnostic.help);
  return text;
}

std::string render(const std::vector<Diagnostic>& diagnostics) {
  std::string text;
  for (const auto& diagnostic : diagnostics) {
    if (&diagnostic - diagnostics.data() == kMostShown) break;
    text += render(diagnostic);
  }
  if (std::ssize(diagnostics) > kMostShown) text += fmt::format("the first {} of ", kMostShown);
  return text + fmt::format("{} error{}", diagnostics.size(), diagnostics.size() == 1 ? "" : "s");
}

std::string to_json(const std::vector<Diagnostic>& diagnostics) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& [place, message, help] : diagnostics) {
    auto entry = where(place);
    entry["message"] = message;
    entry["help"] = help;
    list.push_back(std::move(entry));
  }
  return list.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace muster::job
