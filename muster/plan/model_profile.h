#pragma once
// What a model is and what its blocks cost, as a worker has measured it (app/worker/profile.h): all
// that the planner needs to know of it, without libtorch. Plain values; pure.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"

namespace muster::plan {

constexpr std::uint64_t kFloat = sizeof(float);  // bytes of a weight

struct TiedParameter {  // that a block uses and an earlier one owns
  std::int32_t owner = 0;
  std::string name;
  std::int64_t elements = 0;
  bool trained = true;
};

struct BlockProfile {
  std::string name;
  std::vector<std::int64_t> trained;  // elements of each parameter that it owns, in its order
  std::int64_t frozen = 0;            // elements that keep their values
  std::int64_t statistics = 0;        // elements
  std::uint64_t optimizer_bytes = 0;
  std::vector<TiedParameter> tied = {};
  std::vector<std::int64_t> experts = {};  // as `trained`, of experts that were dealt out

  std::int64_t trained_elements() const noexcept;
  std::int64_t held_elements() const noexcept;  // with those of experts
};

// What the ranks of a replica tell each other in the middle of a pass, where tensors are cut over
// them (models/tensor_group.h), sequences shared (models/context_group.h) or experts dealt out
// (models/expert_group.h).
struct RankMessage {
  enum class Kind : std::uint8_t {
    kSum,
    kSumOwn,
    kGather,
    kExchange,  // each with each
    kPassOn,    // to the next
  };
  Kind kind = Kind::kSum;
  std::uint64_t bytes = 0;  // that each of them puts in; exchanged: that leave it
};

struct BlockPass {  // of one block, for one pass on one core
  Duration forward{};
  Duration backward{};
  std::uint64_t activation_bytes = 0;  // held from forward to backward, the output among them
  std::uint64_t output_bytes = 0;      // what the next block gets
  std::uint64_t backward_bytes = 0;    // what backward takes besides, at its peak: gradients
  std::vector<RankMessage> forward_messages = {}, backward_messages = {};
};

struct PassProfile {
  std::int64_t samples = 0;  // of a pass: a micro-batch
  std::vector<BlockPass> blocks;
  std::vector<RankMessage> loss_messages = {};
};

// How attention meets the positions of others, where sequences are shared.
enum class Attention : std::uint8_t { kUlysses, kRing };

// The first rank's part of a model whose tensors are cut over ranks, whose sequences they share,
// whose experts they hold between them, or whose tensors are cut and experts dealt out.
struct CutProfile {
  std::int32_t ranks = 2;                   // that compute each slice together
  bool sequence = false;                    // activations between cut layers as well
  std::optional<Attention> attention = {};  // of shared sequences; none: tensors are cut
  std::int32_t holders = 1;                 // to so many experts are dealt out
  std::vector<BlockProfile> blocks = {};    // what of them is here
  std::int64_t whole = 0;                   // of it, elements of trained parameters not cut
  PassProfile pass = {};
};

// Buckets of parameters, and how much of each the first rank keeps (parallel/shard_plan.h).
struct ShardedBuckets {
  std::vector<std::int64_t> sizes;  // elements
  std::vector<std::int64_t> own;
  std::int64_t longest() const noexcept;
  std::int64_t elements() const noexcept;
  std::int64_t own_elements() const noexcept;
};

// What ZeRO cuts, among so many workers.
struct ShardProfile {
  std::int32_t workers = 1;
  ShardedBuckets gradients = {};  // stage 2, without the first slot's
  ShardedBuckets by_block = {};   // stage 3, likewise: of one block each
  ShardedBuckets weights = {};    // by_block, and those of frozen parameters
  // What the first rank sends of each of `weights` to each other one; in passes of 16 bits less
  // than it keeps (parallel/packed_weights.h).
  std::vector<std::uint64_t> weight_bytes = {};
  std::vector<std::vector<std::size_t>> needed = {};  // by block, which of `weights` it uses
};

struct ModelProfile {
  std::vector<BlockProfile> blocks;
  std::vector<PassProfile> passes;  // at least one; each of another number of samples
  std::int64_t notes = 0;           // floats that go with a unit's gradients, besides statistics
  Duration update{};                // of all parameters, on one core
  Duration checksum{};              // of the same
  std::uint64_t process_bytes = 0;  // resident without a tensor: libtorch, what it has run, data
  std::vector<ShardProfile> shards = {};  // each among another number of workers
  std::vector<CutProfile> cuts = {};      // those that were looked at
  // Why nothing was run: passes have no activations then, and times that only weigh blocks by their
  // parameters. Empty: all was measured.
  std::string not_measured = {};
  bool counted() const noexcept { return !not_measured.empty(); }

  std::int64_t parameters() const noexcept;  // elements of all, tied ones once
  std::int64_t trained_parameters() const noexcept;
  std::uint64_t state_bytes() const noexcept;  // of a checkpoint: weights, statistics, optimizer
  const PassProfile* pass_of(std::int64_t samples) const noexcept;        // null: not measured
  const ShardProfile* shards_among(std::int32_t workers) const noexcept;  // null: not looked at
};

// {"blocks": […], "passes": […], …}: how a worker tells the command.
nlohmann::ordered_json to_json(const ModelProfile& profile);
// kInvalid where it is none.
Result<ModelProfile> profile_from_json(const std::string& text);

}  // namespace muster::plan
