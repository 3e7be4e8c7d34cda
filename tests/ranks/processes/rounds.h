#pragma once
// One round of an operation, as every rank of a group takes part in it: with values that show what
// was lost or misplaced. For tests of ranks as processes.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "muster/comm/communicator.h"

namespace muster::comm {

enum class Operation : std::uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,  // from rank 0
  kAllToAll,
  kSend,  // each other rank to the hub, which receives
  kRecv,  // the other way round
  kBarrier,
};
inline constexpr Operation kEveryOperation[] = {
    Operation::kAllReduce, Operation::kReduceScatter, Operation::kAllGather, Operation::kBroadcast,
    Operation::kAllToAll,  Operation::kSend,          Operation::kRecv,      Operation::kBarrier};

std::string_view name(Operation operation) noexcept;

class Round {
 public:
  // `memory`: as many elements on every rank, at least 4 * size.
  Round(Operation operation, const Group& group, Rank hub, std::span<float> memory);

  void fill();                  // before the first operation
  std::vector<Op> ops() const;  // what this rank submits, all at once
  bool is_right() const;        // after they have ended

 private:
  std::size_t size() const noexcept { return static_cast<std::size_t>(group_.size); }
  std::size_t self() const noexcept { return static_cast<std::size_t>(to_int(group_.rank)); }
  std::span<float> block(std::size_t rank) const;       // of the first half, one for each rank
  std::span<float> upper() const;                       // as long, in the second half
  std::span<float> upper_block() const;                 // one, in the second half
  std::span<float> message_of(std::size_t rank) const;  // of the whole, one for each rank
  std::vector<Op> messages() const;

  Operation operation_;
  Group group_;
  Rank hub_;
  std::span<float> memory_;
};

}  // namespace muster::comm
