#include "muster/own/module_tensors.h"

#include <fmt/format.h>

#include <set>

#include "muster/app/world/world.h"
#include "muster/parallel/tensor_bridge.h"

namespace muster {
namespace {

void add(std::vector<NamedTensor>& to, std::set<const c10::TensorImpl*>& known,
         const std::string& name, const at::Tensor& tensor) {
  if (!known.insert(tensor.unsafeGetTensorImpl()).second) return;
  if (!tensor.device().is_cpu() || !tensor.is_contiguous())
    throw app::Failure(fail(
        ErrorCode::kUnsupported,
        fmt::format("[tensors_of] {} is on {}{}; a checkpoint stores tensors of the CPU in "
                    "row-major order",
                    name, tensor.device().str(), tensor.is_contiguous() ? "" : ", with strides")));
  to.push_back({name, parallel::view_over(tensor.detach())});
}

}  // namespace

std::vector<NamedTensor> tensors_of(const torch::nn::Module& module) {
  std::vector<NamedTensor> tensors;
  std::set<const c10::TensorImpl*> known;
  for (const auto& entry : module.named_parameters())
    add(tensors, known, entry.key(), entry.value());
  for (const auto& entry : module.named_buffers()) add(tensors, known, entry.key(), entry.value());
  return tensors;
}

}  // namespace muster
