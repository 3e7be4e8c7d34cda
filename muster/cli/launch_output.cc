#include "muster/cli/launch_output.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/number.h"

namespace muster::cli {
namespace {

constexpr int kErrors = 2, kMostStreams = 3;

std::optional<int> streams_from(std::string_view text) {
  const auto streams = number_from<int>(text);
  return streams && *streams >= 0 && *streams <= kMostStreams ? streams : std::nullopt;
}

Result<StreamChoice> streams_of(const std::optional<LaunchWord>& word) {
  if (!word) return StreamChoice();
  const auto choice = StreamChoice::parse(word->text);
  if (choice) return *choice;
  return not_as_expected(*word,
                         "0 (none), 1 (output), 2 (errors) or 3 (both), or that of some processes, "
                         "by their numbers on this host: 0:1,1:3");
}

}  // namespace

std::optional<StreamChoice> StreamChoice::parse(std::string_view text) {
  StreamChoice choice;
  if (text.find(':') == text.npos) {
    const auto all = streams_from(text);
    if (!all) return std::nullopt;
    choice.of_all_ = *all;
    return choice;
  }
  for (bool is_more = true; is_more;) {
    const auto comma = text.find(',');
    const std::string_view one = text.substr(0, comma);
    const auto colon = std::min(one.find(':'), one.size());
    const auto local = number_from<std::int32_t>(one.substr(0, colon));
    const auto streams = streams_from(one.substr(std::min(colon + 1, one.size())));
    if (!local || *local < 0 || !streams) return std::nullopt;
    choice.of_some_[*local] = *streams;
    is_more = comma != text.npos;
    if (is_more) text.remove_prefix(comma + 1);
  }
  return choice;
}

bool StreamChoice::has(std::int32_t local, bool is_error) const {
  const auto found = of_some_.find(local);
  const int streams = found == of_some_.end() ? of_all_ : found->second;
  return is_error ? streams >= kErrors : streams % kErrors != 0;
}

bool StreamChoice::is_empty() const {
  return of_all_ == 0 &&
         std::ranges::all_of(of_some_, [](const auto& each) { return each.second == 0; });
}

Result<LaunchOutput> launch_output(const LaunchFlags& flags,
                                   const std::map<std::string, std::string>& environment) {
  const LaunchWords words(environment);
  LaunchOutput output;
  if (const auto folder = words.read(flags.log_folder, "--log-dir"))
    output.log_folder = folder->text;
  if (const auto role = words.read(flags.role, "--role")) output.role = role->text;
  const auto redirects = words.read(flags.redirects, "--redirects");
  MUSTER_ASSIGN(output.redirected, streams_of(redirects));
  MUSTER_ASSIGN(output.teed, streams_of(words.read(flags.tee, "--tee")));
  if (output.log_folder.empty() && !output.redirected.is_empty())
    return fail(ErrorCode::kInvalid,
                fmt::format("[launch] {} is `{}`, and no folder is named for what is not shown; "
                            "name one: --log-dir DIR",
                            redirects->where, redirects->text));
  return output;
}

}  // namespace muster::cli
