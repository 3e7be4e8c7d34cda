#pragma once
// Copies on the host of tensors that lie elsewhere, so that their bytes can be read and written by
// what knows no devices: checkpoints, messages, hashes. A tensor on the host is its own copy. One
// thread.

#include <ATen/core/Tensor.h>

#include <unordered_map>

namespace muster::parallel {

class HostMirror {
 public:
  // As of the last changed(), with what was written into it since. The copy stays where it is in
  // memory, and is kept, as is the tensor.
  at::Tensor of(const at::Tensor& tensor);
  // What was written into the copies since the last changed() becomes the tensors'.
  void write_back();
  // The tensors have changed by other means.
  void changed();

 private:
  struct Copy {
    at::Tensor tensor, host;
    bool is_fresh = false;
  };
  std::unordered_map<const void*, Copy> copies_;  // by tensor
};

}  // namespace muster::parallel
