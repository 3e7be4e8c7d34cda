#pragma once
// Cells: the fixed pieces of a tensor in which norms are summed and of which shards are made, so
// that neither shows in the bits where a tensor is cut between ranks. A cell is a run of whole rows
// (along axis 0), of about a thousand elements, a multiple of 64 where the tensor's end allows:
// kernels that work on vectors meet the same vectors in a part as in the whole. Pure.

#include <cstddef>
#include <cstdint>
#include <span>

#include "muster/base/round_up.h"

namespace muster::optim {

struct Cells {
  std::int64_t row = 1;       // elements of a row
  std::int64_t elements = 0;  // of a tensor
  std::int64_t size = 1;      // elements of a cell; the last one may be shorter

  std::int64_t count() const noexcept { return ceil_div(elements, size); }
  std::int64_t begin(std::int64_t cell) const noexcept {  // in elements; of cell count(): the end
    return cell * size < elements ? cell * size : elements;
  }
  // Those of a cell, of all in row-major order.
  template <class T>
  std::span<T> in(std::span<T> all, std::int64_t cell) const {
    return all.subspan(static_cast<std::size_t>(begin(cell)),
                       static_cast<std::size_t>(begin(cell + 1) - begin(cell)));
  }
};

Cells cells_of(std::span<const std::int64_t> shape) noexcept;

// The sum of squares, in double, in an order that depends on the number of elements alone. Infinite
// or NaN where an element is.
double sum_of_squares(std::span<const float> cell) noexcept;
double sum_of_squares(std::span<const double> cell) noexcept;

}  // namespace muster::optim
