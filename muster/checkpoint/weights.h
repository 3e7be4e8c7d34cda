#pragma once
// Weights that another training has left, to start one from. Touches the disk through Files only;
// thread-safe.

#include <optional>
#include <vector>

#include "muster/base/files.h"
#include "muster/base/result.h"
#include "muster/base/tensor_slice.h"
#include "muster/checkpoint/manifest.h"

namespace muster::checkpoint {

struct Weights {
  Path place;                        // a checkpoint's folder, or a safetensors file
  std::optional<Manifest> manifest;  // of a checkpoint
  std::vector<TensorRecord> tensors;
};

// What `place` is: a safetensors file, or the folder that one has been exported to; a checkpoint;
// a run or its checkpoints, of which the newest whole one counts. kNotFound: none of these.
Result<Weights> find_weights(Files& files, const Path& place);

// Fills `target`, whole tensors or parts of them, of which `weights` may have more; the bytes of a
// checkpoint are checked on the way. kInvalid where names, dtypes or shapes do not fit, and
// `target` is untouched; kCorrupt: it holds nothing of use.
Status read_weights(Files& files, const Weights& weights, const std::vector<TensorSlice>& target);

}  // namespace muster::checkpoint
