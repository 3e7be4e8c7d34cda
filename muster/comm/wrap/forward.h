#pragma once
// A wrapper's base: passes everything on. A part that splits off is wrapped alike.

#include <utility>
#include <vector>

#include "muster/comm/communicator.h"

namespace muster::comm {

class Forward : public Communicator {
 public:
  explicit Forward(std::shared_ptr<Communicator> inner) : inner_(std::move(inner)) {}

  const Group& group() const noexcept override { return inner_->group(); }
  std::vector<Rank> members() const override { return inner_->members(); }

  Result<std::shared_ptr<Communicator>> split(int color, int key) override {
    MUSTER_ASSIGN(auto part, inner_->split(color, key));
    return wrap(std::move(part));
  }

  void abort(Error why) noexcept override { inner_->abort(std::move(why)); }
  Result<Buffer> allocate(std::size_t bytes) override { return inner_->allocate(bytes); }

 protected:
  Communicator& inner() noexcept { return *inner_; }
  virtual Result<std::shared_ptr<Communicator>> wrap(std::shared_ptr<Communicator> part) = 0;

 private:
  std::shared_ptr<Communicator> inner_;
};

}  // namespace muster::comm
