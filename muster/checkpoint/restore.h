#pragma once
// Reads tensors out of one checkpoint, each byte checked on the way.

#include <vector>

#include "muster/base/files.h"
#include "muster/base/result.h"
#include "muster/base/tensor_slice.h"
#include "muster/base/tensor_view.h"
#include "muster/checkpoint/manifest.h"

namespace muster::checkpoint {

// kInvalid with the first differences when `target` is not exactly the tensors of `records`, or
// parts of them, of one tensor one or several; with `some`: not of all. Pure.
Status check_same_tensors(std::string_view group, const std::vector<TensorRecord>& records,
                          const std::vector<TensorSlice>& target, bool some = false);

// Fills `target`, which check_same_tensors() has accepted for one of the manifest's groups.
// kCorrupt for damage; the tensors then hold nothing of use.
Status restore(Files& files, const Path& folder, const Manifest& manifest,
               const std::vector<TensorRecord>& records, const std::vector<TensorSlice>& target);

}  // namespace muster::checkpoint
