#include "muster/parallel/tensor/tensor_state.h"

#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {

// A tensor that is cut along another axis than the first has one run, all of its memory.
void add_slices(std::vector<TensorSlice>& state, const std::string& name, const at::Tensor& tensor,
                const models::TensorCut& cut) {
  const TensorView view = view_over(tensor);
  if (!cut.is_part()) {
    state.push_back({name, view, view.shape, Shape(view.shape.size())});
    return;
  }
  const auto axis = static_cast<std::size_t>(cut.axis);
  const std::size_t each = view.bytes.size() / static_cast<std::size_t>(view.shape[axis]);
  std::size_t begin = 0;
  for (const Share run : cut.runs) {
    TensorView part = view;
    part.shape[axis] = run.size();
    part.bytes = view.bytes.subspan(begin, each * static_cast<std::size_t>(run.size()));
    begin += part.bytes.size();
    Shape offset(view.shape.size());
    offset[axis] = run.begin;
    state.push_back({name, part, cut.whole, std::move(offset)});
  }
}

}  // namespace muster::parallel
