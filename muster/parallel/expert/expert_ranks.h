#pragma once
// The ranks of an expert group over a communicator: what layers of experts ask for in the middle of
// forward and backward, as operations with a deadline. One thread.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/result.h"
#include "muster/comm/communicator.h"
#include "muster/models/expert_group.h"
#include "muster/parallel/rank_calls.h"

namespace muster::parallel {

class ExpertRanks final : public models::ExpertGroup {
 public:
  ExpertRanks(models::TensorShare share, comm::OpOptions op)
      : calls_("experts", share, std::move(op)) {}

  // Of those ranks, in their order; from then on it can be computed with.
  void use(std::shared_ptr<comm::Communicator> communicator) {
    calls_.use(std::move(communicator));
  }
  // Where gradients go: as ExpertGroup::found.
  using Found = std::function<void(const at::Tensor& parameter, std::int32_t source,
                                   const at::Tensor& gradient)>;
  void deliver_to(Found found) { found_ = std::move(found); }

  models::TensorShare share() const noexcept override { return calls_.share(); }
  at::Tensor exchange_counts(const at::Tensor& counts) const override;
  std::vector<at::Tensor> exchange(const std::vector<at::Tensor>& leaving,
                                   const std::vector<std::int64_t>& arriving,
                                   std::string_view what) const override;
  void found(const at::Tensor& parameter, std::int32_t source,
             const at::Tensor& gradient) const override {
    found_(parameter, source, gradient);
  }
  // [ranks, …]: what every rank has.
  at::Tensor gather(const at::Tensor& own, std::string_view what) const;

  // What other ranks were sent since the last call.
  std::uint64_t take_bytes() { return std::exchange(bytes_, 0); }

  // What made an operation throw, since the last call: libtorch passes on no more than its text.
  std::optional<Error> take_failure() { return calls_.take_failure(); }

 private:
  RankCalls calls_;
  Found found_ = [](const at::Tensor&, std::int32_t, const at::Tensor&) {};
  mutable std::uint64_t bytes_ = 0;
};

}  // namespace muster::parallel
