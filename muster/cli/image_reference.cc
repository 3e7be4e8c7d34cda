#include "muster/cli/image_reference.h"

#include <regex>
#include <string_view>

namespace muster::cli {
namespace {

constexpr std::size_t kLongestImageName = 255;
constexpr std::size_t kLongestReference = 1024;  // with tag and digest; no sane one comes near it

// NAME[:TAG][@DIGEST], by the rules of the same names in the grammar.
std::regex grammar() {
  const std::string host_part = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])";
  const std::string host = "(?:" + host_part + "(?:\\." + host_part + ")*|\\[[a-fA-F0-9:]+\\])";
  const std::string domain = host + "(?::[0-9]+)?";
  const std::string path_part = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*";
  const std::string name = "(?:" + domain + "/)?" + path_part + "(?:/" + path_part + ")*";
  const std::string tag = "[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}";
  const std::string algorithm = "[A-Za-z][A-Za-z0-9]*(?:[+._-][A-Za-z][A-Za-z0-9]*)*";
  return std::regex("(" + name + ")(?::" + tag + ")?(?:@" + algorithm + ":[0-9a-fA-F]{32,})?");
}

}  // namespace

bool is_image_reference(const std::string& text) {
  std::smatch parts;
  return text.size() <= kLongestReference && std::regex_match(text, parts, grammar()) &&
         static_cast<std::size_t>(parts[1].length()) <= kLongestImageName;
}

}  // namespace muster::cli
