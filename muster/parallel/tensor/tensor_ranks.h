#pragma once
// A model's tensor group over a communicator: what layers ask for in the middle of forward and
// backward, as operations with a deadline. One thread.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "muster/base/result.h"
#include "muster/comm/communicator.h"
#include "muster/models/tensor_group.h"
#include "muster/parallel/rank_calls.h"

namespace muster::parallel {

class TensorRanks final : public models::TensorGroup {
 public:
  TensorRanks(models::TensorShare share, comm::OpOptions op, bool cuts_sequence = false)
      : calls_("tensor", share, std::move(op)), cuts_sequence_(cuts_sequence) {}

  // Of those ranks, in their order; from then on it can be computed with.
  void use(std::shared_ptr<comm::Communicator> communicator);

  models::TensorShare share() const noexcept override { return calls_.share(); }
  // In the order of the fixed tree over ranks (comm/sum_tree.h).
  at::Tensor sum(const at::Tensor& addend, std::string_view what) const override;
  at::Tensor sum_own(const at::Tensor& addends, std::string_view what) const override;
  at::Tensor gather(const at::Tensor& own, std::string_view what) const override;

  bool cuts_sequence() const noexcept override { return cuts_sequence_; }

  // Handed to the communicator since the last call.
  std::uint64_t take_bytes() { return std::exchange(bytes_, 0); }

  // What made an operation throw, since the last call: libtorch passes on no more than its text.
  std::optional<Error> take_failure() { return calls_.take_failure(); }

 private:
  void run(comm::Op op, std::uint64_t bytes, std::string_view what) const;

  RankCalls calls_;
  const bool cuts_sequence_;
  std::shared_ptr<const comm::SumTree> tree_;
  mutable std::uint64_t bytes_ = 0;
};

}  // namespace muster::parallel
