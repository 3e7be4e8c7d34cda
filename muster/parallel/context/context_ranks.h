#pragma once
// A context group over a communicator: what attention asks for in the middle of forward and
// backward, as operations with a deadline. One thread.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "muster/base/result.h"
#include "muster/comm/communicator.h"
#include "muster/models/context_group.h"
#include "muster/parallel/rank_calls.h"

namespace muster::parallel {

class ContextRanks final : public models::ContextGroup {
 public:
  ContextRanks(models::TensorShare share, models::ContextAttention attention, comm::OpOptions op)
      : attention_(attention), calls_("context", share, std::move(op)) {}

  // Of those ranks, in their order; from then on it can be computed with.
  void use(std::shared_ptr<comm::Communicator> communicator) {
    calls_.use(std::move(communicator));
  }

  models::TensorShare share() const noexcept override { return calls_.share(); }
  models::ContextAttention attention() const noexcept override { return attention_; }
  at::Tensor exchange(const at::Tensor& blocks, std::string_view what) const override;
  std::unique_ptr<Arriving> pass_on(const at::Tensor& tensor, std::uint32_t stream,
                                    std::string_view what) const override;

  // What other ranks were sent since the last call.
  std::uint64_t take_bytes() { return std::exchange(bytes_, 0); }

  // What made an operation throw, since the last call: libtorch passes on no more than its text.
  std::optional<Error> take_failure() { return calls_.take_failure(); }

 private:
  class Passing;

  const models::ContextAttention attention_;
  RankCalls calls_;
  mutable std::uint64_t bytes_ = 0;
};

}  // namespace muster::parallel
