#include "muster/parallel/expert/expert_ranks.h"

#include <ATen/ATen.h>

#include "muster/base/check.h"
#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {
namespace {

constexpr std::uint32_t kRowsTag = 0;  // the tag of all messages: they arrive in order

}  // namespace

at::Tensor ExpertRanks::exchange_counts(const at::Tensor& counts) const {
  MUSTER_CHECK(counts.size(0) == share().size, "a row for each rank");
  const at::Tensor from = on_host(counts);
  const at::Tensor into = room_on_host(from.sizes(), from);
  bytes_ += from.nbytes() - from.nbytes() / static_cast<std::size_t>(share().size);  // less its own
  calls_.finish(
      calls_
          .submit(comm::AllToAll{.output = flat_view_over(into), .input = flat_view_over(from)},
                  "counts")
          .wait());
  return into.to(counts.device());
}

// The operations keep their memory, whatever becomes of this pass.
std::vector<at::Tensor> ExpertRanks::exchange(const std::vector<at::Tensor>& leaving,
                                              const std::vector<std::int64_t>& arriving,
                                              std::string_view what) const {
  MUSTER_CHECK(std::ssize(leaving) == share().size && leaving.size() == arriving.size(),
               "rows for each rank, and from each");
  std::vector<at::Tensor> arrived(leaving.size());
  std::vector<comm::Work> works;
  const auto submit = [&](const comm::Op& op, const at::Tensor& memory) {
    works.push_back(calls_.submit(op, what));
    works.back().on_done([memory](const Status&) {});
  };
  const auto me = static_cast<std::size_t>(share().rank);
  for (std::size_t rank = 0; rank < leaving.size(); ++rank) {
    arrived[rank] = rank == me
                        ? leaving[rank].detach()
                        : room_on_host({arriving[rank], leaving[rank].size(1)}, leaving[rank]);
    if (rank != me && arriving[rank] > 0)
      submit(comm::Recv{view_over(arrived[rank]), Rank{static_cast<std::int32_t>(rank)}, kRowsTag},
             arrived[rank]);
  }
  for (std::size_t rank = 0; rank < leaving.size(); ++rank) {
    if (rank == me || leaving[rank].size(0) == 0) continue;
    const at::Tensor rows = on_host(leaving[rank]);
    bytes_ += rows.nbytes();
    submit(comm::Send{view_over(rows), Rank{static_cast<std::int32_t>(rank)}, kRowsTag}, rows);
  }
  calls_.finish(comm::wait_for_all(works));
  for (std::size_t rank = 0; rank < arrived.size(); ++rank)
    arrived[rank] = arrived[rank].to(leaving[rank].device());
  return arrived;
}

at::Tensor ExpertRanks::gather(const at::Tensor& own, std::string_view what) const {
  std::vector<std::int64_t> sizes{share().size};
  sizes.insert(sizes.end(), own.sizes().begin(), own.sizes().end());
  const at::Tensor mine = on_host(own);
  const at::Tensor all = room_on_host(sizes, mine);
  calls_.finish(
      calls_
          .submit(comm::AllGather{.output = flat_view_over(all), .input = flat_view_over(mine)},
                  what)
          .wait());
  return all.to(own.device());
}

}  // namespace muster::parallel
