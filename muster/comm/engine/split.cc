#include "muster/comm/engine/split.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace muster::comm {
namespace {

Status gather(Communicator& whole, TensorView output, TensorView input, Duration timeout) {
  OpOptions options;
  options.timeout = timeout;
  options.label = "split";
  return whole.submit(AllGather{std::move(output), std::move(input)}, options).wait();
}

}  // namespace

Result<Division> divide_group(Communicator& whole, int color, int key) {
  const Group& group = whole.group();
  std::array<std::int32_t, 2> mine{color, key};
  std::vector<std::int32_t> all(2 * static_cast<std::size_t>(group.size));
  MUSTER_TRY(gather(whole, view_of(std::span(all)), view_of(std::span<std::int32_t>(mine)),
                    kSplitTimeout));
  const auto key_of = [&](Rank rank) {
    return all[2 * static_cast<std::size_t>(to_int(rank)) + 1];
  };
  Division division;
  for (std::int32_t rank = 0; rank < group.size; ++rank)
    if (all[2 * static_cast<std::size_t>(rank)] == color) division.members.push_back(Rank{rank});
  std::ranges::stable_sort(division.members, {}, key_of);
  const auto place = std::ranges::find(division.members, group.rank) - division.members.begin();
  division.part = {Rank{static_cast<std::int32_t>(place)},
                   static_cast<std::int32_t>(division.members.size()), group.generation};
  return division;
}

Exchange exchange_within(Communicator& whole, const Division& division, const Clock& clock) {
  return [&whole, &clock, members = division.members](
             const std::string& mine, Deadline deadline) -> Result<std::vector<std::string>> {
    const auto size = static_cast<std::size_t>(whole.group().size);
    std::int64_t length = static_cast<std::int64_t>(mine.size());
    std::vector<std::int64_t> lengths(size);
    MUSTER_TRY(gather(whole, view_of(std::span(lengths)), view_of(std::span(&length, 1)),
                      deadline.left(clock)));
    const auto longest = static_cast<std::size_t>(std::ranges::max(lengths));
    std::vector<std::uint8_t> padded(longest);
    if (!mine.empty()) std::memcpy(padded.data(), mine.data(), mine.size());
    std::vector<std::uint8_t> all(size * longest);
    MUSTER_TRY(
        gather(whole, view_of(std::span(all)), view_of(std::span(padded)), deadline.left(clock)));
    std::vector<std::string> answers;
    for (const Rank member : members) {
      const auto rank = static_cast<std::size_t>(to_int(member));
      const auto* text = reinterpret_cast<const char*>(all.data() + rank * longest);
      answers.emplace_back(text, static_cast<std::size_t>(lengths[rank]));
    }
    return answers;
  };
}

}  // namespace muster::comm
