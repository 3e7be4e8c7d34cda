#include "muster/data/batch_advice.h"

#include <fmt/format.h>

namespace muster::data {

std::string advice_on_batch(std::int64_t epoch_size, std::int64_t batch) {
  if (batch <= epoch_size) return {};
  return fmt::format(
      "training.global_batch_size is {}, but there are only {} training samples: each step takes "
      "all of them, and is an epoch; set it to {} or less",
      batch, epoch_size, epoch_size);
}

}  // namespace muster::data
