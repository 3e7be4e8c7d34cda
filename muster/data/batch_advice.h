#pragma once
// What a person should know of a batch that is larger than the data. Pure.

#include <cstdint>
#include <string>

namespace muster::data {

// `epoch_size` training samples, `batch` of them a step. The step plan ends a step with its epoch,
// so a larger batch than there are samples is silently one of all of them. Empty: it is not larger.
std::string advice_on_batch(std::int64_t epoch_size, std::int64_t batch);

}  // namespace muster::data
