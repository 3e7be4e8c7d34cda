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

namespace muster::parallel {

class ContextRanks final : public models::ContextGroup {
 public:
  ContextRanks(models::TensorShare share, comm::OpOptions op) : share_(share), op_(std::move(op)) {}

  // Of those ranks, in their order; from then on it can be computed with.
  void use(std::shared_ptr<comm::Communicator> communicator);

  models::TensorShare share() const noexcept override { return share_; }
  at::Tensor exchange(const at::Tensor& blocks, std::string_view what) const override;
  std::unique_ptr<Arriving> pass_on(const at::Tensor& tensor, std::uint32_t stream,
                                    std::string_view what) const override;

  // What made an operation throw, since the last call: libtorch passes on no more than its text.
  std::optional<Error> take_failure() { return std::exchange(failure_, {}); }

 private:
  class Passing;
  void finish(const Status& done) const;
  comm::OpOptions op_for(std::string_view what) const;

  const models::TensorShare share_;
  const comm::OpOptions op_;
  std::shared_ptr<comm::Communicator> communicator_;
  mutable std::optional<Error> failure_;
};

}  // namespace muster::parallel
