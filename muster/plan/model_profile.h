#pragma once
// What a model is and what its blocks cost, as a worker has measured it (app/worker/profile.h): all
// that the planner needs to know of it, without libtorch. Plain values; pure.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"

namespace muster::plan {

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

  std::int64_t trained_elements() const noexcept;
};

struct BlockPass {  // of one block, for one pass on one core
  Duration forward{};
  Duration backward{};
  std::uint64_t activation_bytes = 0;  // held from forward to backward, the output among them
  std::uint64_t output_bytes = 0;      // what the next block gets
};

struct PassProfile {
  std::int64_t samples = 0;  // of a pass: a micro-batch
  std::vector<BlockPass> blocks;
};

struct ModelProfile {
  std::vector<BlockProfile> blocks;
  std::vector<PassProfile> passes;  // at least one; each of another number of samples
  std::int64_t notes = 0;           // floats that go with a unit's gradients, besides statistics
  Duration update{};                // of all parameters, on one core
  std::uint64_t process_bytes = 0;  // resident before there is a model: libtorch itself

  const PassProfile* pass_of(std::int64_t samples) const noexcept;  // null: not measured
};

// {"blocks": […], "passes": […], …}: how a worker tells the command.
nlohmann::ordered_json to_json(const ModelProfile& profile);
// kInvalid where it is none.
Result<ModelProfile> profile_from_json(const std::string& text);

}  // namespace muster::plan
