#pragma once
// What a rank calls, in a form that travels with the call: so that ranks that call different
// operations, or the same ones in another order, are told so before their data are mixed up. Plain
// data; pure.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "muster/comm/communicator.h"
#include "muster/comm/op.h"

namespace muster::comm {

// Of one collective on one rank; equal on all ranks, or one has made a mistake. What may differ,
// the rows of an ordered sum, is not in it.
struct Signature {
  std::uint64_t check = 0;  // of all below: equal exactly where they are
  std::uint8_t op = 0;      // index in Op
  std::uint8_t dtype = 0;
  std::uint8_t reduce = 0;
  std::uint8_t dimensions = 0;
  std::int32_t root_or_leaves = 0;
  std::uint64_t shares = 0;             // which rank has which leaves and shards; 0: none have
  std::array<std::int64_t, 6> shape{};  // of a row; the last one: of all further dimensions
  std::array<std::uint8_t, 3> wish{};   // algorithm, inner and outer of OpOptions
  std::array<char, 53> label{};         // as far as it fits
};
static_assert(sizeof(Signature) == 128 && std::has_unique_object_representations_v<Signature>);

// `op` is one that check_op lets pass.
Signature signature_of(const Op& op, const OpOptions& options);

// "all_reduce sum F32 [1000] (gradients/2)"; with a wish "all_reduce sum F32 [1000] by ring", or
// "… by hierarchical/auto/tree"
std::string describe(const Signature& signature);

struct Caller {
  Rank rank{0};
  Signature called;
};

// What all ranks of the group are told where two of them call different things as the group's
// `sequence`-th collective. `culprit`: who differs from most; kNoRank: nobody knows.
Error different_calls(const Group& group, std::uint64_t sequence, const Caller& a, const Caller& b,
                      Rank culprit);

// By rank: what everybody calls. An error where they differ, the same on every rank.
Status compare_calls(const Group& group, std::uint64_t sequence,
                     const std::vector<Signature>& calls);

}  // namespace muster::comm
