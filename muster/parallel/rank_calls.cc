#include "muster/parallel/rank_calls.h"

#include <fmt/format.h>

#include <stdexcept>

#include "muster/base/check.h"

namespace muster::parallel {

void RankCalls::use(std::shared_ptr<comm::Communicator> communicator) {
  MUSTER_CHECK(communicator->group().size == share_.size &&
                   to_int(communicator->group().rank) == share_.rank,
               "the communicator is of the ranks of the share");
  communicator_ = std::move(communicator);
}

comm::Work RankCalls::submit(comm::Op op, std::string_view what) const {
  MUSTER_CHECK(communicator_ != nullptr, "ranks compute together once they are connected");
  comm::OpOptions options = op_;
  options.label = fmt::format("{}/{}", subject_, what);
  return communicator_->submit(std::move(op), options);
}

void RankCalls::finish(const Status& done) const {
  if (done) return;
  if (!failure_) failure_ = done.error();
  throw std::runtime_error(done.error().message);
}

}  // namespace muster::parallel
