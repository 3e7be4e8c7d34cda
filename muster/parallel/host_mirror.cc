#include "muster/parallel/host_mirror.h"

#include <ATen/ops/empty.h>

namespace muster::parallel {

at::Tensor HostMirror::of(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  Copy& copy = copies_[tensor.unsafeGetTensorImpl()];
  if (!copy.host.defined())
    copy = {tensor.detach(), at::empty(tensor.sizes(), tensor.options().device(at::kCPU))};
  if (!copy.is_fresh) copy.host.copy_(copy.tensor);
  copy.is_fresh = true;
  return copy.host;
}

void HostMirror::changed() {
  for (auto& [tensor, copy] : copies_) copy.is_fresh = false;
}

void HostMirror::write_back() {
  for (auto& [tensor, copy] : copies_)
    if (copy.is_fresh) copy.tensor.copy_(copy.host);
}

}  // namespace muster::parallel
