#include "muster/parallel/pipeline/stage_links.h"

#include <torch/types.h>

#include <algorithm>
#include <utility>

#include "muster/base/check.h"
#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {
namespace {

// Streams of tensors, and those of their layouts.
constexpr std::uint32_t kTensors = 0x10000;
constexpr std::uint32_t kLayouts = 0x20000;

}  // namespace

StageLinks::Layout StageLinks::layout_of(const at::Tensor& tensor) {
  const auto axes = static_cast<std::size_t>(tensor.dim());
  MUSTER_CHECK(axes <= kMostAxes, "an activation has at most 6 axes");
  Layout layout{};
  layout[0] = static_cast<std::int64_t>(tensor.scalar_type());
  layout[1] = tensor.dim();
  std::ranges::copy(tensor.sizes(), layout.begin() + 2);
  std::ranges::copy(tensor.strides(), layout.begin() + 2 + kMostAxes);
  return layout;
}

// On the host, which is where the engines write.
at::Tensor StageLinks::tensor_of(const Layout& layout) {
  const auto axes = static_cast<std::size_t>(layout[1]);
  const at::IntArrayRef sizes(layout.data() + 2, axes);
  const at::IntArrayRef strides(layout.data() + 2 + kMostAxes, axes);
  return at::empty_strided(
      sizes, strides, at::TensorOptions(static_cast<at::ScalarType>(layout[0])).device(at::kCPU));
}

void StageLinks::send(Rank to, TensorKind kind, at::Tensor tensor, const std::string& what) {
  while (!sending_.empty() && sending_.front().done() && sending_.front().wait())
    sending_.pop_front();
  if (!tensor.is_non_overlapping_and_dense()) tensor = tensor.contiguous();
  tensor = tensor.cpu();  // in the same order
  const Layout layout = layout_of(tensor);
  const auto [known, fresh] = sent_.emplace(Key{to, kind}, layout);
  MUSTER_CHECK(known->second == layout, "tensors of one kind have one layout");
  if (fresh) {
    const auto words = std::make_shared<Layout>(layout);
    submit_send(view_of(std::span<std::int64_t>(*words)), to, kLayouts | kind.stream,
                "layout of " + what, words);
  }
  const TensorView bytes = bytes_over(tensor);
  submit_send(bytes, to, kTensors | kind.stream, what,
              std::make_shared<at::Tensor>(std::move(tensor)));
}

// The operation keeps its memory, whatever becomes of this object.
void StageLinks::submit_send(TensorView view, Rank to, std::uint32_t tag, std::string what,
                             std::shared_ptr<void> memory) {
  sending_.push_back(
      communicator_->submit(comm::Send{std::move(view), to, tag}, op_for(std::move(what))));
  sending_.back().on_done([memory = std::move(memory)](const Status&) {});
}

bool StageLinks::expect(Rank from, TensorKind kind, const std::string& what) {
  const auto known = received_.find({from, kind});
  if (known == received_.end()) return false;
  at::Tensor tensor = tensor_of(known->second);
  auto work = communicator_->submit(comm::Recv{bytes_over(tensor), from, kTensors | kind.stream},
                                    op_for(what));
  work.on_done([tensor](const Status&) {});  // as in submit_send()
  receiving_[{from, kind.stream}].push_back({kind, std::move(tensor), std::move(work)});
  return true;
}

Result<at::Tensor> StageLinks::recv(Rank from, TensorKind kind, const std::string& what) {
  auto& stream = receiving_[{from, kind.stream}];
  if (stream.empty() && !expect(from, kind, what)) {
    MUSTER_ASSIGN(const Layout layout, receive_layout(from, kind, what));
    received_.emplace(Key{from, kind}, layout);
    expect(from, kind, what);
  }
  Receiving next = std::move(stream.front());
  stream.pop_front();
  MUSTER_CHECK(next.kind == kind, "tensors arrive in the order in which they are expected");
  MUSTER_TRY(next.work.wait());
  return next.tensor.to(device_);
}

Result<StageLinks::Layout> StageLinks::receive_layout(Rank from, TensorKind kind,
                                                      const std::string& what) {
  const auto layout = std::make_shared<Layout>();
  const auto work = communicator_->submit(
      comm::Recv{view_of(std::span<std::int64_t>(*layout)), from, kLayouts | kind.stream},
      op_for("layout of " + what));
  work.on_done([layout](const Status&) {});
  MUSTER_TRY(work.wait());
  return *layout;
}

Status StageLinks::finish() {
  const std::vector<comm::Work> works(sending_.begin(), sending_.end());
  sending_.clear();
  return comm::wait_for_all(works);
}

comm::OpOptions StageLinks::op_for(std::string what) const {
  comm::OpOptions op = op_;
  op.label = std::move(what);
  return op;
}

}  // namespace muster::parallel
