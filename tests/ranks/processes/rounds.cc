#include "tests/ranks/processes/rounds.h"

#include <algorithm>

namespace muster::comm {
namespace {

// Whole numbers whose sums over a few ranks are exact; neighbours and ranks differ.
float value_of(std::size_t rank, std::size_t place) noexcept {
  return static_cast<float>((place * 31 + rank * 17) % 997 + 1);
}

float sum_at(std::size_t ranks, std::size_t place) noexcept {
  float sum = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) sum += value_of(rank, place);
  return sum;
}

void number(std::span<float> values, std::size_t rank, std::size_t first = 0) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = value_of(rank, first + i);
}

bool numbered(std::span<const float> values, std::size_t rank, std::size_t first = 0) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != value_of(rank, first + i)) return false;
  return true;
}

bool summed(std::span<const float> values, std::size_t ranks, std::size_t first = 0) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != sum_at(ranks, first + i)) return false;
  return true;
}

}  // namespace

std::string_view name(Operation operation) noexcept {
  constexpr std::string_view kNames[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                         "all_to_all", "send",           "recv",       "barrier"};
  return kNames[static_cast<std::size_t>(operation)];
}

Round::Round(Operation operation, const Group& group, Rank hub, std::span<float> memory)
    : operation_(operation), group_(group), hub_(hub), memory_(memory) {}

std::span<float> Round::block(std::size_t rank) const {
  const std::size_t length = memory_.size() / 2 / size();
  return memory_.subspan(rank * length, length);
}

std::span<float> Round::upper() const {
  return memory_.subspan(memory_.size() / 2, block(0).size() * size());
}

std::span<float> Round::upper_block() const { return upper().first(block(0).size()); }

std::span<float> Round::message_of(std::size_t rank) const {
  const std::size_t length = memory_.size() / size();
  return memory_.subspan(rank * length, length);
}

void Round::fill() {
  std::ranges::fill(memory_, -1.0F);
  switch (operation_) {
    case Operation::kAllGather:
      return number(upper_block(), self());
    case Operation::kBroadcast:
      if (self() == 0) number(memory_, 0);
      return;
    case Operation::kSend:
    case Operation::kRecv:
      if ((group_.rank == hub_) == (operation_ == Operation::kRecv)) number(memory_, self());
      return;
    default:
      return number(memory_, self());
  }
}

std::vector<Op> Round::ops() const {
  const auto lower = memory_.first(upper().size());
  switch (operation_) {
    case Operation::kAllReduce:
      return {AllReduce{view_of(memory_)}};
    case Operation::kReduceScatter:
      return {ReduceScatter{view_of(upper_block()), view_of(lower)}};
    case Operation::kAllGather:
      return {AllGather{view_of(lower), view_of(upper_block())}};
    case Operation::kBroadcast:
      return {Broadcast{view_of(memory_), Rank{0}}};
    case Operation::kAllToAll:
      return {AllToAll{view_of(upper()), view_of(lower)}};
    case Operation::kBarrier:
      return {Barrier{}};
    default:
      return messages();
  }
}

std::vector<Op> Round::messages() const {
  const bool sends = (group_.rank == hub_) == (operation_ == Operation::kRecv);
  std::vector<Op> ops;
  const auto add = [&](std::size_t peer, std::size_t place) {
    const TensorView tensor = view_of(message_of(place));
    const Rank rank{static_cast<std::int32_t>(peer)};
    ops.push_back(sends ? Op(Send{tensor, rank}) : Op(Recv{tensor, rank}));
  };
  if (group_.rank != hub_) add(static_cast<std::size_t>(to_int(hub_)), self());
  if (group_.rank == hub_)
    for (std::size_t rank = 0; rank < size(); ++rank)
      if (rank != self()) add(rank, rank);
  return ops;
}

bool Round::is_right() const {
  const auto all_of_ranks = [this](const auto& right) {
    for (std::size_t rank = 0; rank < size(); ++rank)
      if (!right(rank)) return false;
    return true;
  };
  const auto hub = static_cast<std::size_t>(to_int(hub_));
  const std::size_t length = block(0).size();
  const std::size_t message = message_of(0).size();
  switch (operation_) {
    case Operation::kAllReduce:
      return summed(memory_, size());
    case Operation::kReduceScatter:
      return summed(upper_block(), size(), self() * length);
    case Operation::kAllGather:
      return all_of_ranks([&](std::size_t rank) { return numbered(block(rank), rank); });
    case Operation::kBroadcast:
      return numbered(memory_, 0);
    case Operation::kAllToAll:
      return all_of_ranks([&](std::size_t rank) {
        return numbered(upper().subspan(rank * length, length), rank, self() * length);
      });
    case Operation::kSend:
      return self() != hub || all_of_ranks([&](std::size_t rank) {
               return rank == hub || numbered(message_of(rank), rank, rank * message);
             });
    case Operation::kRecv:
      return numbered(message_of(self()), hub, self() * message);
    default:
      return true;
  }
}

}  // namespace muster::comm
