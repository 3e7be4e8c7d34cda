#include "muster/parallel/context/context_ranks.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <stdexcept>
#include <vector>

#include "muster/base/check.h"
#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {

class ContextRanks::Passing final : public Arriving {
 public:
  Passing(const ContextRanks& ranks, std::vector<comm::Work> works, at::Tensor arriving)
      : ranks_(ranks), works_(std::move(works)), arriving_(std::move(arriving)) {}
  at::Tensor wait() override {
    ranks_.finish(comm::wait_for_all(works_));
    return arriving_;
  }

 private:
  const ContextRanks& ranks_;
  const std::vector<comm::Work> works_;
  const at::Tensor arriving_;
};

void ContextRanks::use(std::shared_ptr<comm::Communicator> communicator) {
  MUSTER_CHECK(communicator->group().size == share_.size &&
                   to_int(communicator->group().rank) == share_.rank,
               "the communicator is of the ranks that share sequences");
  communicator_ = std::move(communicator);
}

comm::OpOptions ContextRanks::op_for(std::string_view what) const {
  MUSTER_CHECK(communicator_ != nullptr, "ranks compute together once they are connected");
  comm::OpOptions op = op_;
  op.label = fmt::format("context/{}", what);
  return op;
}

void ContextRanks::finish(const Status& done) const {
  if (done) return;
  if (!failure_) failure_ = done.error();
  throw std::runtime_error(done.error().message);
}

at::Tensor ContextRanks::exchange(const at::Tensor& blocks, std::string_view what) const {
  MUSTER_CHECK(blocks.size(0) == share_.size, "a block for each rank");
  const at::Tensor from = blocks.detach().contiguous();
  const at::Tensor into = at::empty(from.sizes(), from.options());
  TensorView input = view_over(from), output = view_over(into);
  input.shape = output.shape = {from.numel()};
  finish(
      communicator_->submit(comm::AllToAll{.output = output, .input = input}, op_for(what)).wait());
  return into;
}

// The operations keep their memory, whatever becomes of this pass.
std::unique_ptr<ContextRanks::Arriving> ContextRanks::pass_on(const at::Tensor& tensor,
                                                              std::uint32_t stream,
                                                              std::string_view what) const {
  const at::Tensor own = tensor.detach().contiguous();
  const at::Tensor arriving = at::empty(own.sizes(), own.options());
  const Rank next{(share_.rank + 1) % share_.size};
  const Rank before{(share_.rank + share_.size - 1) % share_.size};
  std::vector<comm::Work> works;
  works.push_back(
      communicator_->submit(comm::Recv{view_over(arriving), before, stream}, op_for(what)));
  works.back().on_done([arriving](const Status&) {});
  works.push_back(communicator_->submit(comm::Send{view_over(own), next, stream}, op_for(what)));
  works.back().on_done([own](const Status&) {});
  return std::make_unique<Passing>(*this, std::move(works), arriving);
}

}  // namespace muster::parallel
