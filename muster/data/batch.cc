#include "muster/data/batch.h"

#include <algorithm>
#include <string>

#include "muster/base/check.h"

namespace muster::data {

const TensorView& SliceBatch::field(std::string_view name) const {
  const auto found = std::ranges::find(fields, name, &NamedTensor::name);
  MUSTER_CHECK(found != fields.end(), "the batch has no field " + std::string(name));
  return found->tensor;
}

}  // namespace muster::data
