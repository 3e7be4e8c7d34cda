#include "muster/data/source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace muster::data {

std::string describe(const FieldSpec& field) {
  return fmt::format("{} {} [{}]", field.name, to_string(field.dtype),
                     fmt::join(field.shape, ", "));
}

std::int64_t byte_size(const FieldSpec& field) noexcept {
  return element_count(field.shape) * static_cast<std::int64_t>(size_of(field.dtype));
}

}  // namespace muster::data
