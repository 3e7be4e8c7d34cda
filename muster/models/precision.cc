#include "muster/models/precision.h"

#include <ATen/autocast_mode.h>

namespace muster::models {

namespace autocast = at::autocast;

Autocast::Autocast(Precision precision, torch::DeviceType device)
    : device_(device),
      was_enabled_(autocast::is_autocast_enabled(device)),
      was_caching_(autocast::is_autocast_cache_enabled()),
      was_dtype_(autocast::get_autocast_dtype(device)) {
  autocast::set_autocast_enabled(device, precision != Precision::kF32);
  autocast::set_autocast_cache_enabled(false);
  if (precision != Precision::kF32)
    autocast::set_autocast_dtype(device,
                                 precision == Precision::kF16 ? torch::kHalf : torch::kBFloat16);
}

Autocast::~Autocast() {
  autocast::set_autocast_enabled(device_, was_enabled_);
  autocast::set_autocast_cache_enabled(was_caching_);
  autocast::set_autocast_dtype(device_, was_dtype_);
}

torch::Tensor widened(const torch::Tensor& tensor) {
  const bool narrow =
      tensor.scalar_type() == torch::kHalf || tensor.scalar_type() == torch::kBFloat16;
  return narrow ? tensor.to(torch::kFloat) : tensor;
}

}  // namespace muster::models
