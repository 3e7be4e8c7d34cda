#include "muster/optim/cells.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include "muster/base/round_up.h"

namespace muster::optim {
namespace {

constexpr std::int64_t kElements = 1024;  // of a cell, at least
constexpr std::int64_t kVector = 64;      // elements that a kernel may take in one go

// Several sums at once, since one after the other would wait for each addition.
template <class T>
double squares_of(std::span<const T> cell) noexcept {
  std::array<double, 8> sums{};
  std::size_t i = 0;
  for (; i + sums.size() <= cell.size(); i += sums.size())
    for (std::size_t k = 0; k < sums.size(); ++k) {
      const double value = cell[i + k];
      sums[k] += value * value;
    }
  for (std::size_t k = 0; i < cell.size(); ++i, ++k) {
    const double value = cell[i];
    sums[k] += value * value;
  }
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

}  // namespace

Cells cells_of(std::span<const std::int64_t> shape) noexcept {
  Cells cells;
  cells.elements =
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  if (shape.size() > 1 && shape[0] > 0)
    cells.row = std::max<std::int64_t>(1, cells.elements / shape[0]);
  const std::int64_t rows =
      round_up(ceil_div(kElements, cells.row), kVector / std::gcd(cells.row, kVector));
  cells.size = rows * cells.row;
  return cells;
}

double sum_of_squares(std::span<const float> cell) noexcept { return squares_of(cell); }
double sum_of_squares(std::span<const double> cell) noexcept { return squares_of(cell); }

}  // namespace muster::optim
