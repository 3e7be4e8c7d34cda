#include "muster/checkpoint/merge_adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "muster/base/adapter_names.h"

namespace muster::checkpoint {
namespace {

struct Matrix {
  std::span<float> values;  // row after row
  std::int64_t rows = 0, columns = 0;
  std::span<float> row(std::int64_t i) const {
    return values.subspan(static_cast<std::size_t>(i * columns), static_cast<std::size_t>(columns));
  }
};

// A vector is a column.
Result<Matrix> matrix(const std::vector<NamedTensor>& tensors, const std::string& name) {
  const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
  if (found == tensors.end())
    return fail(ErrorCode::kCorrupt, fmt::format("[checkpoint/merge] an adapter lacks `{}`", name));
  const TensorView& tensor = found->tensor;
  if (tensor.dtype != DType::kF32)
    return fail(ErrorCode::kUnsupported,
                fmt::format("[checkpoint/merge] `{}` is {}; only F32 can be merged", name,
                            to_string(tensor.dtype)));
  if (tensor.shape.empty() || tensor.shape.size() > 2)
    return fail(ErrorCode::kCorrupt, fmt::format("[checkpoint/merge] `{}` is no matrix", name));
  return Matrix{
      {reinterpret_cast<float*>(tensor.bytes.data()), tensor.bytes.size() / sizeof(float)},
      tensor.shape[0],
      tensor.shape.size() == 2 ? tensor.shape[1] : 1};
}

void add_product(const Matrix& weight, const Matrix& up, const Matrix& down, double scale) {
  std::vector<double> sums(static_cast<std::size_t>(weight.columns));
  for (std::int64_t o = 0; o < weight.rows; ++o) {
    std::ranges::fill(sums, 0.0);
    for (std::int64_t r = 0; r < down.rows; ++r) {
      const double factor = scale * up.row(o)[static_cast<std::size_t>(r)];
      std::ranges::transform(sums, down.row(r), sums.begin(), [&](double sum, float value) {
        return sum + factor * static_cast<double>(value);
      });
    }
    std::ranges::transform(weight.row(o), sums, weight.row(o).begin(), [](float w, double sum) {
      return static_cast<float>(static_cast<double>(w) + sum);
    });
  }
}

Status merge_layer(const std::vector<NamedTensor>& tensors, const std::string& layer) {
  MUSTER_ASSIGN(const Matrix weight, matrix(tensors, layer + ".weight"));
  MUSTER_ASSIGN(const Matrix down, matrix(tensors, layer + std::string(kAdapterDown)));
  MUSTER_ASSIGN(const Matrix up, matrix(tensors, layer + std::string(kAdapterUp)));
  MUSTER_ASSIGN(const Matrix alpha, matrix(tensors, layer + std::string(kAdapterAlpha)));
  if (down.columns != weight.columns || up.rows != weight.rows || up.columns != down.rows ||
      down.rows < 1 || alpha.values.size() != 1)
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("[checkpoint/merge] the adapter of `{}` has other shapes than it", layer));
  add_product(weight, up, down,
              static_cast<double>(alpha.values[0]) / static_cast<double>(down.rows));
  return ok();
}

}  // namespace

Status merge_adapters(std::vector<NamedTensor>& tensors) {
  std::size_t merged = 0;
  for (const NamedTensor& tensor : tensors) {
    const auto layer = layer_of(tensor.name, kAdapterDown);
    if (!layer) continue;
    MUSTER_TRY(merge_layer(tensors, std::string(*layer)));
    ++merged;
  }
  if (merged == 0)
    return fail(ErrorCode::kInvalid,
                "[checkpoint/merge] there are no adapters to merge; the job has to train some "
                "(lora.rank)");
  std::erase_if(tensors, [](const NamedTensor& tensor) { return is_adapter(tensor.name); });
  return ok();
}

}  // namespace muster::checkpoint
