#pragma once
// Samples kept out of training, to be measured on, where data comes as one set.

#include <cstdint>
#include <vector>

#include "muster/data/source.h"

namespace muster::data {

struct Parts {  // numbers of samples, ascending; together each sample once
  std::vector<std::int64_t> training;
  std::vector<std::int64_t> validation;
};

// Chooses `fraction` of `size` samples at random, the same ones for every seed of a job: runs stay
// comparable. 0 <= fraction <= 1, rounded to whole samples. kInvalid where a part would be empty.
// Pure.
Result<Parts> hold_out(std::int64_t size, double fraction);

// What a format that has both sets yields.
struct SourcePair {
  SourcePtr training;
  SourcePtr validation;
  std::uint64_t fingerprint = 0;  // of which samples these are and what they are called; 0: unknown
};

// The samples of `whole` that `indices` names, in that order.
SourcePtr subset(SourcePtr whole, std::vector<std::int64_t> indices);

}  // namespace muster::data
