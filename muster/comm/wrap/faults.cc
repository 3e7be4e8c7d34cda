#include "muster/comm/wrap/forward.h"
#include "muster/comm/wrap/wrappers.h"

namespace muster::comm {
namespace {

class FaultyCommunicator final : public Forward {
 public:
  FaultyCommunicator(CommunicatorPtr inner, Fault fault)
      : Forward(std::move(inner)), fault_(std::move(fault)) {}

  Work submit(Op op, const OpOptions& options) override {
    if (auto error = fault_(op, options)) return Work::ended(std::move(*error));
    return inner().submit(std::move(op), options);
  }

 protected:
  Result<CommunicatorPtr> wrap(CommunicatorPtr part) override {
    return with_faults(std::move(part), fault_);
  }

 private:
  const Fault fault_;
};

}  // namespace

CommunicatorPtr with_faults(CommunicatorPtr inner, Fault fault) {
  return std::make_shared<FaultyCommunicator>(std::move(inner), std::move(fault));
}

}  // namespace muster::comm
