#include <algorithm>

#include "muster/comm/wrap/forward.h"
#include "muster/comm/wrap/wrappers.h"

namespace muster::comm {
namespace {

class DeadlineCommunicator final : public Forward {
 public:
  DeadlineCommunicator(CommunicatorPtr inner, Duration limit)
      : Forward(std::move(inner)), limit_(limit) {}

  Work submit(Op op, const OpOptions& options) override {
    OpOptions limited = options;
    limited.timeout = std::min(options.timeout, limit_);
    return inner().submit(std::move(op), limited);
  }

 protected:
  Result<CommunicatorPtr> wrap(CommunicatorPtr part) override {
    return with_deadline(std::move(part), limit_);
  }

 private:
  const Duration limit_;
};

}  // namespace

CommunicatorPtr with_deadline(CommunicatorPtr inner, Duration limit) {
  return std::make_shared<DeadlineCommunicator>(std::move(inner), limit);
}

}  // namespace muster::comm
