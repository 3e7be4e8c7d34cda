#pragma once
// Low-rank adapters (LoRA), put into the matrices that they lie beside: the model is then one
// without adapters that answers the same, for any tool.

#include <vector>

#include "muster/base/result.h"
#include "muster/base/tensor_view.h"

namespace muster::checkpoint {

// Each matrix W that has an adapter becomes W + alpha / rank · B · A, summed in f64 and rounded
// once; the tensors of adapters (base/adapter_names.h) leave the list. In place. kInvalid where
// there is no adapter; kCorrupt where one does not fit its layer; kUnsupported where the matrices
// are not f32.
Status merge_adapters(std::vector<NamedTensor>& tensors);

}  // namespace muster::checkpoint
