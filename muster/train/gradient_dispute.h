#pragma once
// Ranks that have the same part of a model and different sums of one step's gradients: who is
// wrong, and what follows. Each rank gives what it has, all get what all gave, and decide alike;
// nothing was updated with them. One thread.

#include <cstdint>
#include <optional>
#include <vector>

#include "muster/base/ids.h"
#include "muster/train/replicas.h"

namespace muster::train {

class GradientDispute {
 public:
  // For the others: what this rank has in `step`, and whether it had something else the last time.
  // `part`: Strategy::part_of.
  ReplicaReport report(Step step, std::uint64_t checksum, std::int32_t part) const;

  enum class Verdict : std::uint8_t {
    kSame,      // and nobody is to blame
    kNamed,     // `wrong` of the attempt before; the sums are right now
    kGoes,      // `wrong`; the step is taken again without them
    kAgain,     // nobody can tell; the step is taken again, which does
    kHopeless,  // nor did that, a few times
  };
  struct Ruling {
    Verdict verdict = Verdict::kSame;
    std::vector<Rank> wrong = {};
  };
  // `reports`: by rank. `checksum`: this rank's own.
  Ruling judge(Step step, std::uint64_t checksum, const std::vector<ReplicaReport>& reports);

  // Whether the step that has just failed is to be taken again. Asked once.
  bool takes_again() noexcept;

 private:
  struct Attempt {
    Step step{0};
    std::uint64_t checksum = 0;  // what this rank had in the first one
    int count = 1;
  };
  std::optional<Attempt> before_;
  bool again_ = false;
};

}  // namespace muster::train
