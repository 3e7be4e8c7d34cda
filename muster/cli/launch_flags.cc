#include "muster/cli/launch_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace muster::cli {
namespace {

std::string torchruns_variable(const std::string& flag) {
  std::string name = flag.substr(2);
  std::ranges::transform(name, name.begin(), [](unsigned char c) {
    return c == '-' ? '_' : static_cast<char>(std::toupper(c));
  });
  return "PET_" + name;
}

}  // namespace

std::optional<LaunchWord> LaunchWords::read(const std::string& value,
                                            const std::string& flag) const {
  if (!value.empty()) return LaunchWord{value, flag};
  const auto found = environment_.find(torchruns_variable(flag));
  if (found == environment_.end() || found->second.empty()) return std::nullopt;
  return LaunchWord{found->second, found->first};
}

Error not_as_expected(const LaunchWord& word, const std::string& expected) {
  return fail(ErrorCode::kInvalid,
              fmt::format("[launch] {} is `{}`; expected {}", word.where, word.text, expected));
}

}  // namespace muster::cli
