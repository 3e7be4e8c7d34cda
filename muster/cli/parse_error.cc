#include "muster/cli/parse_error.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <string_view>

namespace muster::cli {
namespace {

// CLI11 has the parts of its errors in their texts only.
std::optional<std::string_view> behind(std::string_view text, std::string_view begin) {
  if (!text.starts_with(begin)) return std::nullopt;
  return text.substr(begin.size());
}

std::string_view kind_of_value(const CLI::App& command, const std::string& name) {
  const CLI::Option* option = command.get_option_no_throw(name);
  const std::string type = option == nullptr ? "" : option->get_type_name();
  if (type.starts_with("INT") || type.starts_with("UINT") || type == "N") return "a whole number";
  return type.starts_with("FLOAT") ? "a number" : "another kind of value";
}

std::string not_converted(std::string_view name_and_value, const CLI::App& command) {
  constexpr std::string_view kBetween = " = ";
  const auto at = name_and_value.find(kBetween);
  const std::string name(name_and_value.substr(0, at));
  if (at == name_and_value.npos) return fmt::format("{} does not take this value", name);
  return fmt::format("{} takes {}, found `{}`", name, kind_of_value(command, name),
                     name_and_value.substr(at + kBetween.size()));
}

// "--nodes: Value 0 not in range 1 to 65536"; "SHELL: fish not in {bash,zsh}".
std::optional<std::string> not_among(std::string_view text) {
  constexpr std::string_view kAfterName = ": ";
  constexpr std::string_view kValue = "Value ";
  constexpr std::string_view kRange = " not in range ";
  constexpr std::string_view kSet = " not in {";
  const auto colon = text.find(kAfterName);
  if (colon == text.npos) return std::nullopt;
  std::string_view rest = text.substr(colon + kAfterName.size());
  const auto told = [&](std::string_view wanted, std::string_view found) {
    return fmt::format("{}: expected {}, found `{}`", text.substr(0, colon), wanted, found);
  };
  if (const auto at = rest.find(kRange); rest.starts_with(kValue) && at != rest.npos)
    return told(rest.substr(at + kRange.size()), rest.substr(kValue.size(), at - kValue.size()));
  if (const auto at = rest.rfind(kSet); rest.ends_with('}') && at != rest.npos) {
    const std::string_view set = rest.substr(at + kSet.size());
    return told("one of " + std::string(set.substr(0, set.size() - 1)), rest.substr(0, at));
  }
  return std::nullopt;
}

}  // namespace

std::string in_words(const CLI::Error& error, const CLI::App& command) {
  const std::string_view text = error.what();
  if (const auto rest = behind(text, "Could not convert: ")) return not_converted(*rest, command);
  if (auto told = not_among(text)) return *std::move(told);
  if (const auto at = text.find(": At Most 1 required"); at != text.npos)
    return fmt::format("{} is given more than once", text.substr(0, at));
  return std::string(text);
}

}  // namespace muster::cli
