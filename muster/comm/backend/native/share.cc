#include "muster/comm/backend/native/share.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/number.h"

namespace muster::comm {
namespace {

constexpr char kMade = '+';
constexpr char kFailed = '-';

// "-2 what happened": whom a rank missed, or -1, for the others.
std::string to_text(const Error& why) {
  return fmt::format("{}{} {}", kFailed, to_int(why.peer), why.message);
}

Error error_from(const std::string& text, Rank from, const Group& group) {
  const auto space = std::min(text.find(' '), text.size());
  const bool tells = space < text.size() && text.front() == kFailed;
  const auto rank =
      tells ? number_from<std::int32_t>(std::string_view(text).substr(1, space - 1)) : std::nullopt;
  if (!rank || *rank < to_int(kNoRank) || *rank >= group.size)
    return no_sense(group, from, "whom it missed, and why,", text);
  return {ErrorCode::kUnavailable, text.substr(space + 1), Rank{*rank}};
}

}  // namespace

std::string_view next_word(std::string_view& text) {
  const auto space = text.find(' ');
  const std::string_view word = text.substr(0, space);
  text = space == std::string_view::npos ? std::string_view() : text.substr(space + 1);
  return word;
}

Error no_sense(const Group& group, Rank from, std::string_view expected, std::string_view text) {
  std::string start(text.substr(0, 40));
  std::ranges::replace_if(
      start, [](char c) { return c < 0x20 || c > 0x7E; }, '?');
  return fail(
      ErrorCode::kUnavailable,
      fmt::format("[comm/network] rank {} of generation {} says \"{}\" where {} was expected; "
                  "do all workers run the same muster?",
                  to_int(from), to_int(group.generation), start, expected),
      from);
}

Result<std::vector<std::string>> share(const Exchange& exchange, const Group& group,
                                       const Result<std::string>& mine, Deadline deadline) {
  const std::string text = mine ? kMade + *mine : to_text(mine.error());
  auto all = exchange(text, deadline);
  // Where both failed, what happened here says more, unless it is over for all.
  if (!mine && (all || all.error().code != ErrorCode::kStale))
    return error_from(text, group.rank, group);
  if (!all) return all;
  for (std::size_t rank = 0; rank < all->size(); ++rank) {
    std::string& theirs = (*all)[rank];
    if (!theirs.starts_with(kMade))
      return error_from(theirs, Rank{static_cast<std::int32_t>(rank)}, group);
    theirs.erase(0, 1);
  }
  return all;
}

}  // namespace muster::comm
