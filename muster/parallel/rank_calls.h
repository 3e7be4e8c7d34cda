#pragma once
// What layers ask of the other ranks of their group in the middle of forward and backward:
// operations with a deadline, whose failure libtorch passes on as text only. One thread.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "muster/base/result.h"
#include "muster/comm/communicator.h"
#include "muster/models/tensor_group.h"

namespace muster::parallel {

class RankCalls {
 public:
  // `subject`: before the name of each operation.
  RankCalls(std::string subject, models::TensorShare share, comm::OpOptions op)
      : subject_(std::move(subject)), share_(share), op_(std::move(op)) {}

  // Of the ranks of the share, in their order; from then on operations can be submitted.
  void use(std::shared_ptr<comm::Communicator> communicator);

  models::TensorShare share() const noexcept { return share_; }
  comm::Work submit(comm::Op op, std::string_view what) const;
  // Throws for an error, and keeps it.
  void finish(const Status& done) const;

  // What made an operation throw, since the last call.
  std::optional<Error> take_failure() { return std::exchange(failure_, {}); }

 private:
  const std::string subject_;
  const models::TensorShare share_;
  const comm::OpOptions op_;
  std::shared_ptr<comm::Communicator> communicator_;
  mutable std::optional<Error> failure_;
};

}  // namespace muster::parallel
