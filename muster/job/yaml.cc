#include "muster/job/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/anchor.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string_view>

#include "muster/job/surrogates.h"
#include "muster/job/text_check.h"

namespace muster::job {
namespace {

constexpr int kMostNodes =
    4096;  // keys, values and entries; the largest sane job has a few hundred

struct TooMuch {
  Place place;
  std::string message;
};

// Whether a quoted scalar ends before the text does; the parser takes the end for a quote.
bool is_closed(std::string_view text) {
  const char quote = text.empty() ? ' ' : text.front();
  if (quote != '"' && quote != '\'') return true;  // a block, which has no end mark
  for (std::size_t at = 1; at < text.size(); ++at) {
    if (text[at] == '\\' && quote == '"') {
      ++at;
    } else if (text[at] == quote) {
      return true;
    }
  }
  return false;
}

bool has_broken(const YamlNode& node) {
  return node.broken || node.lacks_keys ||
         std::ranges::any_of(node.entries, [](const auto& entry) { return entry.value.broken; });
}

// Builds the tree from the parser's events, in which nothing has been expanded or converted yet.
class TreeBuilder final : public YAML::EventHandler {
 public:
  // `text`: what the parser reads. `spoilt`: the bytes that became blanks; words with such a byte
  // are broken.
  TreeBuilder(std::shared_ptr<const Source> source, std::string_view text,
              const CheckedText& spoilt, std::vector<Diagnostic>& errors)
      : source_(std::move(source)), text_(text), spoilt_(spoilt), errors_(errors) {}

  YamlNode take() { return std::move(root_); }

  // What was read until the text could not be understood: broken, and so is each list or map in
  // brackets that was open then.
  YamlNode salvage() {
    while (open_.size() > 1) {
      const auto& parent = open_[open_.size() - 2];
      open_.back().node.broken |= is_bracket(open_.back().node.place);
      if (parent.node.kind == YamlNode::Kind::kMap && !parent.key) {
        open_.pop_back();  // it would have been a key
      } else {
        close();
      }
    }
    if (!open_.empty()) root_ = std::move(open_.front().node);
    root_.broken = true;
    return std::move(root_);
  }

  // The innermost bracket that is open.
  std::optional<Place> open_bracket() const {
    for (auto open = open_.rbegin(); open != open_.rend(); ++open)
      if (is_bracket(open->node.place)) return open->node.place;
    return std::nullopt;
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 2) {
      report(place_of(mark, 1), "a second document; a job file is one document",
             "remove everything from here on, or close the bracket that was left open");
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(node_at(YamlNode::Kind::kNull, mark, "", anchor));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    report(place_of(mark, word_length(mark)), "aliases (*name) are not accepted",
           "write the value itself");
    auto node = node_at(YamlNode::Kind::kNull, mark, "", YAML::NullAnchor);
    node.broken = true;
    add(std::move(node));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    auto node = node_at(YamlNode::Kind::kScalar, mark, tag, anchor);
    node.quoted = tag == "!";
    const auto written = node.quoted ? from(node.place) : std::string_view();
    if (!is_closed(written)) {
      report(node.place, "this quote is never closed", "close it on the same line");
      node.broken = true;
    }
    const auto quotes = node.quoted ? 2 : 0;
    node.place.length = static_cast<int>(value.size()) + quotes;
    node.broken = node.broken || spoilt_.touches(node.place);
    read_text(node, value, written.starts_with('"'));
    add(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(node_at(YamlNode::Kind::kList, mark, tag, anchor));
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(node_at(YamlNode::Kind::kMap, mark, tag, anchor));
  }
  void OnMapEnd() override { close(); }

 private:
  struct OpenNode {
    YamlNode node;
    std::optional<YamlNode> key;  // of a map: the key whose value comes next
  };

  Place place_of(const YAML::Mark& mark, int length) const {
    return {source_, mark.line + 1, mark.column + 1, length};
  }

  std::string_view from(const Place& place) const {
    std::string_view text = text_;
    for (int line = 1; line < place.line; ++line) {
      text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
    }
    return text.substr(std::min<std::size_t>(place.column - 1, text.size()));
  }

  bool is_bracket(const Place& place) const {
    const auto text = from(place);
    return text.starts_with('[') || text.starts_with('{');
  }

  std::string_view rest_of_line(const YAML::Mark& mark) const {
    if (mark.pos < 0 || static_cast<std::size_t>(mark.pos) >= text_.size()) return {};
    const auto rest = text_.substr(static_cast<std::size_t>(mark.pos));
    return rest.substr(0, rest.find_first_of("\r\n"));
  }

  // Of an anchor, an alias or a tag, which ends where a list or mapping in brackets goes on.
  int word_length(const YAML::Mark& mark) const {
    const auto rest = rest_of_line(mark);
    const auto end = rest.find_first_of(rest.starts_with("!<") ? " >" : " \t,[]{}");
    return static_cast<int>(std::max<std::size_t>(1, std::min(end, rest.size())));
  }

  YamlNode node_at(YamlNode::Kind kind, const YAML::Mark& mark, std::string_view tag,
                   YAML::anchor_t anchor) {
    YamlNode node;
    node.kind = kind;
    node.place = place_of(mark, 1);
    if (anchor != YAML::NullAnchor) {
      report(place_of(mark, word_length(mark)), "anchors (&name) are not accepted",
             "write the value where it is needed");
    }
    if (!tag.empty() && tag != "?" && tag != "!") {
      report(place_of(mark, word_length(mark)),
             fmt::format("tags are not accepted: `{}`", excerpt(tag)),
             "remove it; the type of a value follows from its key");
      node.broken = true;
    }
    return node;
  }

  void read_text(YamlNode& node, const std::string& value, bool in_double_quotes) {
    auto text = in_double_quotes ? joined_surrogates(value) : shown_surrogates(value);
    if (text) {
      node.text = *std::move(text);
    } else {
      report(node.place, text.error().message,
             "write both halves, such as \\ud83d\\ude00, or the character itself");
      node.broken = true;
    }
  }

  void open(YamlNode node) {
    if (open_.size() >= kMaxJobDepth) {
      throw TooMuch{node.place, fmt::format("nested more than {} levels deep", kMaxJobDepth)};
    }
    open_.push_back({std::move(node), std::nullopt});
  }

  void close() {
    auto node = std::move(open_.back().node);
    open_.pop_back();
    add(std::move(node));
  }

  void add(YamlNode node) {
    if (++nodes_ > kMostNodes) {
      throw TooMuch{node.place, fmt::format("more than {} keys and values", kMostNodes)};
    }
    if (open_.empty()) {
      if (documents_ <= 1) root_ = std::move(node);
    } else if (auto& parent = open_.back(); parent.node.kind == YamlNode::Kind::kList) {
      // A field takes a list as a whole, of which nothing can be said any more.
      parent.node.broken = parent.node.broken || has_broken(node);
      parent.node.items.push_back(std::move(node));
    } else if (!parent.key) {
      parent.key = std::move(node);
    } else {
      auto key = std::move(*parent.key);
      parent.key.reset();
      add_entry(parent.node, std::move(key), std::move(node));
    }
  }

  void add_entry(YamlNode& map, YamlNode key, YamlNode value) {
    if (value.kind == YamlNode::Kind::kNull) {
      value.place = key.place;
      value.broken = value.broken || spoilt_.is_blanked_behind(key.place);
    }
    if (key.broken) {
      map.lacks_keys = true;
      return;
    }
    if (key.kind != YamlNode::Kind::kScalar) {
      return report(key.place, "a key must be a plain name", "");
    }
    if (key.text == "<<" && !key.quoted) {
      map.lacks_keys = true;
      return report(key.place, "merge keys (<<) are not accepted", "write the keys themselves");
    }
    const auto first = std::find_if(map.entries.begin(), map.entries.end(),
                                    [&](const auto& entry) { return entry.key.text == key.text; });
    if (first != map.entries.end()) {
      return report(
          key.place, fmt::format("duplicate key `{}`", excerpt(key.text)),
          fmt::format("it stands on line {} already; keep one of the two", first->key.place.line));
    }
    map.entries.push_back({std::move(key), std::move(value)});
  }

  void report(Place place, std::string message, std::string help) {
    errors_.push_back({std::move(place), std::move(message), std::move(help)});
  }

  std::shared_ptr<const Source> source_;
  std::string_view text_;
  const CheckedText& spoilt_;
  std::vector<Diagnostic>& errors_;
  YamlNode root_;
  std::vector<OpenNode> open_;
  int documents_ = 0;
  int nodes_ = 0;
};

std::string help_for(std::string_view message) {
  const auto has = [&](std::string_view part) { return message.find(part) != message.npos; };
  if (has("map") && !has("flow")) return "check the indentation, and the space after each colon";
  if (has("flow") || has("sequence")) return "check the brackets and commas";
  if (has("quote") || has("scalar")) return "check the quotes";
  return "the YAML cannot be understood from here on";
}

// The parser's columns may lie one past the end; the mark of an error may lie nowhere.
Place place_of_error(const std::shared_ptr<const Source>& source, const YAML::Mark& mark) {
  return {source, std::max(mark.line, 0) + 1, std::max(mark.column, 0) + 1, 1};
}

// `epochs 3` above `lanes: 2`, of whose key the parser takes it for the beginning: its word.
std::optional<Place> line_without_colon(const std::shared_ptr<const Source>& source, int below) {
  std::string_view rest = source->text;
  std::string_view line;
  for (int number = 1; number < below; ++number) {
    line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  }
  const auto indented = line.find_first_not_of(' ');
  if (indented == line.npos || indented != rest.find_first_not_of(' ')) return std::nullopt;
  const auto content = line.substr(indented);
  if (content.find_first_of(":#") != content.npos ||
      std::string_view("-\"'[{|>").find(content.front()) != std::string_view::npos)
    return std::nullopt;
  const auto word = content.substr(0, content.find_first_of(" \r"));
  return Place{source, below - 1, static_cast<int>(indented) + 1, static_cast<int>(word.size())};
}

Diagnostic syntax_error(const std::shared_ptr<const Source>& source, const YAML::Exception& error,
                        const std::optional<Place>& bracket) {
  if (bracket && error.msg.ends_with("flow not found"))
    return {*bracket, "not valid YAML: this bracket is never closed",
            "close it, or look for what does not belong between it and its end"};
  const Place place = place_of_error(source, error.mark);
  if (const auto word = line_without_colon(source, place.line);
      word && error.msg == "illegal map value")
    return {*word, "not valid YAML: a colon is missing on this line",
            "write `name: value`, with a space behind the colon"};
  return {place, "not valid YAML: " + error.msg, help_for(error.msg)};
}

// `checked`: what is wrong with the text itself, which has been told.
YamlNode parse(const std::shared_ptr<const Source>& source, std::string text,
               const CheckedText& checked, std::vector<Diagnostic>& errors) {
  hide_surrogates(text);
  TreeBuilder builder(source, text, checked, errors);
  const auto before = errors.size();
  YamlNode broken;
  broken.broken = true;
  broken.place = {source, 1, 1, 1};
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    for (int documents = 0; documents < 2 && parser.HandleNextDocument(builder); ++documents) {
    }
    return builder.take();
  } catch (const TooMuch& much) {
    errors.resize(before);  // not a job at all: what else is wrong with it helps nobody
    errors.push_back({much.place, much.message, "no job needs that"});
  } catch (const YAML::Exception& error) {
    auto wrong = syntax_error(source, error, builder.open_bracket());
    // Behind a blank for what was wrong it may be none but for that blank.
    if (checked.errors.empty() || wrong.place.line < checked.errors.front().place.line)
      errors.push_back(std::move(wrong));
    return builder.salvage();
  }
  return broken;
}

void shift(YamlNode& node, int by) {
  node.place.column += by;
  for (auto& item : node.items) shift(item, by);
  for (auto& [key, value] : node.entries) {
    shift(key, by);
    shift(value, by);
  }
}

}  // namespace

YamlNode read_yaml(const std::shared_ptr<const Source>& source, std::vector<Diagnostic>& errors) {
  CheckedText checked = check_text(source);
  errors.insert(errors.end(), checked.errors.begin(), checked.errors.end());
  if (!checked.readable) {
    YamlNode broken;
    broken.broken = true;
    return broken;
  }
  // Only JSON still has tabs as indentation here, where they are one blank like any other.
  std::string& text = checked.text;
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '{') {
    std::replace(text.begin(), text.end(), '\t', ' ');
  }
  return parse(source, text, checked, errors);
}

YamlNode read_yaml_value(const std::shared_ptr<const Source>& source, std::size_t offset,
                         std::vector<Diagnostic>& errors) {
  const CheckedText checked = check_text(source);
  std::vector<Diagnostic> found = checked.errors;
  YamlNode node;
  if (found.empty()) {
    const auto text = source->text.substr(offset);
    node = parse(source, text, checked, found);
    if (node.kind == YamlNode::Kind::kNull && text.empty()) {
      node.kind = YamlNode::Kind::kScalar;
      node.quoted = true;
      node.place = {source, 1, 1, 1};
    }
    shift(node, static_cast<int>(offset));
    for (auto& error : found) error.place.column += static_cast<int>(offset);
  }
  node.broken = node.broken || !found.empty();
  errors.insert(errors.end(), found.begin(), found.end());
  return node;
}

}  // namespace muster::job
