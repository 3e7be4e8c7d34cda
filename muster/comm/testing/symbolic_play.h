#pragma once
// Plays the schedules of all ranks at once, in memory, with symbols for elements: who has
// contributed to each, once or twice, from which place, and in which order it was added up. Between
// two ranks there is room for a few messages only; where a rank would wait for ever, read what
// nobody wrote, or leave its memory, the play ends and says so.

#include <fmt/format.h>

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "muster/comm/schedule.h"

namespace muster::comm::symbolic {

struct Symbol {
  std::uint64_t contributors = 0;  // a bit for each; none: nobody wrote it
  std::int32_t place = -1;         // of what they contributed; kMixed: of different ones
  std::uint32_t order = 0;         // equal where the sums were formed alike
  bool twice = false;              // somebody's part is in it more than once

  static constexpr std::int32_t kMixed = -2;
  friend bool operator==(const Symbol&, const Symbol&) = default;
};
using Symbols = std::vector<Symbol>;

inline std::uint32_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t mixed = a * 0x9E3779B97F4A7C15ULL + b * 0xD1B54A32D192ED03ULL + 1;
  mixed ^= mixed >> 31;
  return static_cast<std::uint32_t>((mixed * 0xBF58476D1CE4E5B9ULL) >> 32);
}

inline Symbol leaf(std::int32_t contributor, std::int64_t place) {
  return {std::uint64_t{1} << contributor, static_cast<std::int32_t>(place),
          mix(static_cast<std::uint64_t>(contributor), static_cast<std::uint64_t>(place)), false};
}

inline Symbols leaves(std::int32_t contributor, std::int64_t count) {
  Symbols all;
  for (std::int64_t place = 0; place < count; ++place) all.push_back(leaf(contributor, place));
  return all;
}

inline Symbol sum(const Symbol& to, const Symbol& from) {
  return {to.contributors | from.contributors, to.place == from.place ? to.place : Symbol::kMixed,
          mix(to.order, from.order),
          to.twice || from.twice || (to.contributors & from.contributors) != 0};
}

// Of ranks 0 … size-1, each once, from `place`.
inline bool is_whole_sum(const Symbol& symbol, std::int32_t size, std::int64_t place) {
  const std::uint64_t all = size == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << size) - 1;
  return symbol.contributors == all && symbol.place == place && !symbol.twice;
}

struct SymbolicRank {
  Schedule schedule{};
  Symbols input{};
  Symbols output{};
  Symbols scratch{};
  std::size_t next = 0;       // step
  std::int64_t messages = 0;  // sent
  std::int64_t elements = 0;  // sent
};

class SymbolicPlay {
 public:
  // `room`: messages that may be under way from one rank to another.
  explicit SymbolicPlay(std::vector<SymbolicRank> ranks, std::size_t room = 2)
      : ranks_(std::move(ranks)), room_(room) {
    for (SymbolicRank& rank : ranks_)
      rank.scratch.resize(static_cast<std::size_t>(rank.schedule.scratch));
  }

  // What went wrong first; empty: all ranks came to their end, and all messages arrived.
  std::string run() {
    for (bool moved = true; moved && fault_.empty();) {
      moved = false;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
        while (fault_.empty() && step(rank)) moved = true;
    }
    for (std::size_t rank = 0; rank < ranks_.size() && fault_.empty(); ++rank)
      if (ranks_[rank].next < ranks_[rank].schedule.steps.size())
        fault_ = fmt::format("rank {} waits for ever in step {}", rank, ranks_[rank].next);
    for (const auto& [ends, messages] : wires_)
      if (fault_.empty() && !messages.empty())
        fault_ = fmt::format("rank {} never takes a message of rank {}", ends.second, ends.first);
    return fault_;
  }

  SymbolicRank& operator[](std::int32_t rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  SymbolicRank& operator[](std::size_t rank) { return ranks_[rank]; }

 private:
  bool fails(std::size_t rank, std::string_view what) {
    fault_ = fmt::format("rank {}, step {}: {}", rank, ranks_[rank].next, what);
    return false;
  }

  static Symbols& space(SymbolicRank& rank, Space space) {
    return space == Space::kInput    ? rank.input
           : space == Space::kOutput ? rank.output
                                     : rank.scratch;
  }

  // Null where the slice is not all inside.
  static Symbol* memory(SymbolicRank& rank, const Slice& slice) {
    Symbols& all = space(rank, slice.space);
    const bool inside = slice.begin >= 0 && slice.count >= 0 &&
                        slice.begin + slice.count <= static_cast<std::int64_t>(all.size());
    static Symbol none;
    if (!inside) return nullptr;
    return slice.count == 0 ? &none : &all[static_cast<std::size_t>(slice.begin)];
  }

  static bool written(const Symbol* symbols, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i)
      if (symbols[i].contributors == 0) return false;
    return true;
  }

  bool step(std::size_t number) {
    SymbolicRank& me = ranks_[number];
    if (me.next == me.schedule.steps.size()) return false;
    const ScheduleStep& step = me.schedule.steps[me.next];
    using Kind = ScheduleStep::Kind;
    const bool message = step.kind == Kind::kSend || step.kind == Kind::kRecv;
    const auto peer = static_cast<std::size_t>(to_int(step.peer));
    if (message && (peer >= ranks_.size() || peer == number)) return fails(number, "no such peer");
    const bool moved = step.kind == Kind::kSend   ? send(number, peer, step)
                       : step.kind == Kind::kRecv ? recv(number, peer, step)
                                                  : work(number, step);
    if (moved) ++me.next;
    return moved;
  }

  bool send(std::size_t number, std::size_t peer, const ScheduleStep& step) {
    SymbolicRank& me = ranks_[number];
    const Symbol* from = memory(me, step.from);
    if (from == nullptr) return fails(number, "sends from beyond its memory");
    if (!written(from, step.from.count)) return fails(number, "sends what nobody wrote");
    auto& wire = wires_[{number, peer}];
    if (wire.size() >= room_) return false;
    wire.emplace_back(from, from + step.from.count);
    ++me.messages;
    me.elements += step.from.count;
    return true;
  }

  bool recv(std::size_t number, std::size_t peer, const ScheduleStep& step) {
    Symbol* to = memory(ranks_[number], step.to);
    if (to == nullptr) return fails(number, "receives to beyond its memory");
    if (step.to.space == Space::kInput) return fails(number, "receives into its input");
    auto& wire = wires_[{peer, number}];
    if (wire.empty()) return false;
    if (static_cast<std::int64_t>(wire.front().size()) != step.to.count)
      return fails(number,
                   fmt::format("gets {} elements, takes {}", wire.front().size(), step.to.count));
    std::copy(wire.front().begin(), wire.front().end(), to);
    wire.pop_front();
    return true;
  }

  bool work(std::size_t number, const ScheduleStep& step) {
    const bool adds = step.kind == ScheduleStep::Kind::kReduce;
    const Symbol* from = memory(ranks_[number], step.from);
    Symbol* to = memory(ranks_[number], step.to);
    if (from == nullptr || to == nullptr) return fails(number, "works beyond its memory");
    if (step.from.count != step.to.count) return fails(number, "works on two lengths");
    if (step.to.space == Space::kInput) return fails(number, "writes to its input");
    if (!written(from, step.to.count)) return fails(number, "reads what nobody wrote");
    if (adds && !written(to, step.to.count)) return fails(number, "adds to what nobody wrote");
    for (std::int64_t i = 0; i < step.to.count; ++i) to[i] = adds ? sum(to[i], from[i]) : from[i];
    return true;
  }

  std::vector<SymbolicRank> ranks_;
  const std::size_t room_;
  std::map<std::pair<std::size_t, std::size_t>, std::deque<Symbols>> wires_;
  std::string fault_;
};

}  // namespace muster::comm::symbolic
