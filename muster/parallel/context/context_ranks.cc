#include "muster/parallel/context/context_ranks.h"

#include <ATen/ATen.h>

#include <vector>

#include "muster/base/check.h"
#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {

class ContextRanks::Passing final : public Arriving {
 public:
  Passing(const RankCalls& calls, std::vector<comm::Work> works, at::Tensor arriving,
          c10::Device device)
      : calls_(calls), works_(std::move(works)), arriving_(std::move(arriving)), device_(device) {}
  at::Tensor wait() override {
    calls_.finish(comm::wait_for_all(works_));
    return arriving_.to(device_);
  }

 private:
  const RankCalls& calls_;
  const std::vector<comm::Work> works_;
  const at::Tensor arriving_;
  const c10::Device device_;
};

at::Tensor ContextRanks::exchange(const at::Tensor& blocks, std::string_view what) const {
  MUSTER_CHECK(blocks.size(0) == share().size, "a block for each rank");
  const at::Tensor from = on_host(blocks);
  const at::Tensor into = room_on_host(from.sizes(), from);
  bytes_ += from.nbytes() - from.nbytes() / static_cast<std::size_t>(share().size);  // less its own
  calls_.finish(
      calls_
          .submit(comm::AllToAll{.output = flat_view_over(into), .input = flat_view_over(from)},
                  what)
          .wait());
  return into.to(blocks.device());
}

// The operations keep their memory, whatever becomes of this pass.
std::unique_ptr<ContextRanks::Arriving> ContextRanks::pass_on(const at::Tensor& tensor,
                                                              std::uint32_t stream,
                                                              std::string_view what) const {
  const at::Tensor own = on_host(tensor);
  const at::Tensor arriving = room_on_host(own.sizes(), own);
  const Rank next{(share().rank + 1) % share().size};
  const Rank before{(share().rank + share().size - 1) % share().size};
  bytes_ += own.nbytes();
  std::vector<comm::Work> works;
  works.push_back(calls_.submit(comm::Recv{view_over(arriving), before, stream}, what));
  works.back().on_done([arriving](const Status&) {});
  works.push_back(calls_.submit(comm::Send{view_over(own), next, stream}, what));
  works.back().on_done([own](const Status&) {});
  return std::make_unique<Passing>(calls_, std::move(works), arriving, tensor.device());
}

}  // namespace muster::parallel
