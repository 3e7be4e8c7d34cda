#pragma once
// Whole weights for as long as they are used (ZeRO stage 3: Rajbhandari et al., SC 2020; FSDP: Zhao
// et al., VLDB 2023): a block's are gathered while the block before it is computed, and forgotten
// behind it. Two neighbouring blocks' are here at most. The tensors of all lanes' models share
// their storage, whose memory comes and goes; what a graph keeps of them (views of weights) follows
// it. Weights arrive on the host; where the parameters lie elsewhere, they get copies there.
//
// Gathers begin in one order on every rank, that of the uses (layout/weight_uses.h): a rank is
// never more than one block ahead of the slowest one. They have a communicator of their own, since
// what else ranks tell each other in a step begins whenever it is ready.
//
// Threads: enter(), leave() and give_up() from several lanes at once; everything else by one thread
// while no lane is in a step.

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "muster/base/ids.h"
#include "muster/base/result.h"
#include "muster/comm/communicator.h"
#include "muster/layout/weight_uses.h"
#include "muster/parallel/packed_weights.h"

namespace muster::parallel {

using layout::WeightUse;

// What is gathered at a time.
struct WeightBucket {
  struct Place {
    at::Tensor parameter;     // f32, contiguous, at the beginning of its storage; on one device
    std::int64_t offset = 0;  // in floats, from the bucket's begin
  };
  std::shared_ptr<const comm::Shards> shards;  // of the bucket's floats
  std::shared_ptr<std::vector<float>> own;     // this rank's shard
  std::vector<Place> places;
  std::shared_ptr<const PackedWeights> packed = nullptr;  // as it travels; none: as it is

  // What a rank sends of it to each other one.
  std::uint64_t sent_bytes(Rank rank) const;
};

class WeightGathers {
 public:
  // needed[b]: the buckets that block b uses. From here on the parameters have no memory but that
  // of the gathers. Collective.
  static Result<std::unique_ptr<WeightGathers>> create(comm::Communicator& communicator,
                                                       std::vector<WeightBucket> buckets,
                                                       std::vector<std::vector<std::size_t>> needed,
                                                       comm::OpOptions op);
  ~WeightGathers();

  // What comes now: the first block's gathers begin. After finish().
  Status begin(std::vector<WeightUse> uses);
  // Waits until the weights of uses[use] are here. Each of its users comes once, and leaves once;
  // one that does not need the weights leaves only.
  Status enter(std::size_t use);
  void leave(std::size_t use);
  void give_up(const Error& why);  // nobody waits any more
  Status finish();                 // until all ranks have what they need of this one

  // That this rank has sent since begin(): its shard of all that was gathered, to each of the
  // others.
  std::uint64_t sent_bytes() const;
  std::uint64_t most_bytes() const;  // of whole weights at a time, since it was made
  std::uint64_t bytes_here() const;  // now

 private:
  class State;
  WeightGathers(std::shared_ptr<comm::Communicator> communicator, std::shared_ptr<State> state);

  const std::shared_ptr<comm::Communicator> communicator_;
  const std::shared_ptr<State> state_;  // shared with what is under way
};

}  // namespace muster::parallel
