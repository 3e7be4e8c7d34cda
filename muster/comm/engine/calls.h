#pragma once
// What a rank called as its last collectives, and what its peers say that they call: the two are
// compared as soon as both are known, whoever is first. Thread-safe.

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "muster/comm/engine/signature.h"

namespace muster::comm {

class Calls {
 public:
  explicit Calls(Group group) : group_(group) {}

  // This rank calls `mine` as collective `sequence`, one more than the last. kInvalid, naming both,
  // where a peer calls something else.
  Status enter(std::uint64_t sequence, const Signature& mine);
  // A peer calls `theirs`; likewise. What this rank called long ago is not known any more: ok.
  Status heard(Rank from, std::uint32_t sequence, const Signature& theirs);

 private:
  Status compare(std::uint64_t sequence, Rank from, const Signature& theirs) const;

  static constexpr std::size_t kKept = 64;
  const Group group_;
  std::mutex mutex_;
  std::uint64_t entered_ = 0;                                  // guarded by mutex_, as all below
  std::array<Signature, kKept> mine_{};                        // of collective s at s % kKept
  std::map<std::pair<std::uint64_t, Rank>, Signature> ahead_;  // of peers in later ones
};

}  // namespace muster::comm
