#include "muster/parallel/part_slices.h"

#include <algorithm>

#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {
namespace {

// Neighbouring rows of a view.
TensorView rows_in(const TensorView& view, Share rows) {
  const std::size_t each = view.bytes.size() / static_cast<std::size_t>(view.shape.front());
  TensorView some = view;
  some.shape.front() = rows.size();
  some.bytes = view.bytes.subspan(each * static_cast<std::size_t>(rows.begin),
                                  each * static_cast<std::size_t>(rows.size()));
  return some;
}

// Of a tensor that is cut along its rows: these are some runs of the whole's, one behind the other.
void add_runs(std::vector<TensorSlice>& state, const std::string& name, const TensorView& view,
              const models::TensorCut& cut, PartRows rows) {
  const std::int64_t end = rows.begin + view.shape.front();
  std::int64_t before = 0;  // rows of the part, in the runs so far
  for (const Share run : cut.runs) {
    const Share here{std::max(rows.begin, before), std::min(end, before + run.size())};
    if (here.begin < here.end) {
      Shape offset(view.shape.size());
      offset.front() = run.begin + here.begin - before;
      state.push_back({name, rows_in(view, {here.begin - rows.begin, here.end - rows.begin}),
                       cut.whole, std::move(offset)});
    }
    before += run.size();
  }
}

}  // namespace

void add_slices(std::vector<TensorSlice>& state, const std::string& name, const at::Tensor& tensor,
                const models::TensorCut& cut, PartRows rows) {
  const TensorView view = view_over(tensor);
  if (cut.axis == 0) return add_runs(state, name, view, cut, rows);
  Shape whole = cut.is_part() ? cut.whole : view.shape;
  Shape offset(whole.size());
  // One that is cut along another axis than the first has one run.
  if (cut.is_part()) offset[static_cast<std::size_t>(cut.axis)] = cut.runs.front().begin;
  if (!whole.empty()) {
    whole.front() = rows.all;
    offset.front() = rows.begin;
  }
  state.push_back({name, view, std::move(whole), std::move(offset)});
}

void add_slices(std::vector<TensorSlice>& state, const std::string& name, const at::Tensor& tensor,
                const models::TensorCut& cut) {
  add_slices(state, name, tensor, cut, {0, tensor.dim() == 0 ? 1 : tensor.size(0)});
}

}  // namespace muster::parallel
