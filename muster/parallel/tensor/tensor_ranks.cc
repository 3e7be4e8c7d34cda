#include "muster/parallel/tensor/tensor_ranks.h"

#include <utility>

#include "muster/base/check.h"
#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {

void TensorRanks::use(std::shared_ptr<comm::Communicator> communicator) {
  calls_.use(std::move(communicator));
  tree_ = std::make_shared<const comm::SumTree>(share().size, share().size);
}

// A pass without samples, as where others have experts here, asks all ranks for nothing.
void TensorRanks::run(comm::Op operation, std::uint64_t bytes, std::string_view what) const {
  if (bytes == 0) return;
  const comm::Work work = calls_.submit(std::move(operation), what);
  bytes_ += bytes;
  calls_.finish(work.wait());
}

at::Tensor TensorRanks::sum(const at::Tensor& addend, std::string_view what) const {
  at::Tensor total = room_on_host(addend.sizes(), addend);
  total.copy_(addend.detach());
  TensorView row = view_over(total);
  row.shape = {1, total.numel()};
  run(comm::AllReduce{.buffer = row, .tree = tree_}, total.nbytes(), what);
  return total.to(addend.device());
}

at::Tensor TensorRanks::sum_own(const at::Tensor& addends, std::string_view what) const {
  MUSTER_CHECK(addends.size(0) == share().size, "addends for each rank");
  const at::Tensor all = on_host(addends);
  const at::Tensor own = room_on_host(all.sizes().slice(1), all);
  const auto shards = std::make_shared<comm::Shards>();
  for (std::int64_t rank = 0; rank <= share().size; ++rank)
    shards->begin.push_back(rank * own.numel());
  TensorView from = view_over(all);
  from.shape = {1, all.numel()};
  run(
      comm::ReduceScatter{
          .output = flat_view_over(own), .input = from, .shards = shards, .tree = tree_},
      all.nbytes(), what);
  return own.to(addends.device());
}

at::Tensor TensorRanks::gather(const at::Tensor& own, std::string_view what) const {
  const at::Tensor mine = on_host(own);
  auto sizes = mine.sizes().vec();
  sizes.insert(sizes.begin(), share().size);
  const at::Tensor all = room_on_host(sizes, mine);
  run(comm::AllGather{.output = flat_view_over(all), .input = flat_view_over(mine)}, mine.nbytes(),
      what);
  return all.to(own.device());
}

}  // namespace muster::parallel
