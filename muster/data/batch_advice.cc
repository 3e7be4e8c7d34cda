#include "muster/data/batch_advice.h"

#include <fmt/format.h>

namespace muster::data {

std::string advice_on_batch(std::int64_t epoch_size, std::int64_t batch) {
  if (batch <= epoch_size) return {};
  return fmt::format(
      "training.global_batch_size is {}, but there {} only {} training sample{}: each step takes "
      "all of them, and is an epoch; set it to {} or less",
      batch, epoch_size == 1 ? "is" : "are", epoch_size, epoch_size == 1 ? "" : "s", epoch_size);
}

}  // namespace muster::data
