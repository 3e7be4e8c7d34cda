#include <fmt/format.h>

#include "muster/optim/adamw.h"
#include "muster/optim/lamb.h"
#include "muster/optim/lars.h"
#include "muster/optim/offloaded_state.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/sgd.h"

namespace muster::optim {
namespace {

using Created = Result<std::unique_ptr<Optimizer>>;
using OffloadedStatePtr = std::shared_ptr<OffloadedState>;

Error bad_field(std::string_view field, double value, std::string_view wanted) {
  return fail(ErrorCode::kInvalid,
              fmt::format("[optim/create] {} is {}; it must be {}", field, value, wanted));
}

Status check_share(std::string_view field, double value) {
  if (!(value >= 0 && value < 1)) return bad_field(field, value, "in [0, 1)");
  return ok();
}

Status check_decay(double value) {
  if (!(value >= 0)) return bad_field("weight_decay", value, "0 or more");
  return ok();
}

Created create(const SgdSpec& spec, std::vector<OptimizedParameter> parameters,
               OffloadedStatePtr offloaded) {
  MUSTER_TRY(check_share("momentum", spec.momentum));
  MUSTER_TRY(check_decay(spec.weight_decay));
  if (spec.nesterov && spec.momentum == 0)
    return bad_field("momentum", spec.momentum, "above 0 with nesterov");
  return std::make_unique<Sgd>(spec, std::move(parameters), std::move(offloaded));
}

// Of AdamW and LAMB.
Status check_moments(const auto& spec) {
  MUSTER_TRY(check_share("beta1", spec.beta1));
  MUSTER_TRY(check_share("beta2", spec.beta2));
  if (!(spec.epsilon > 0)) return bad_field("epsilon", spec.epsilon, "above 0");
  return check_decay(spec.weight_decay);
}

Created create(const AdamWSpec& spec, std::vector<OptimizedParameter> parameters,
               OffloadedStatePtr offloaded) {
  MUSTER_TRY(check_moments(spec));
  return std::make_unique<AdamW>(spec, std::move(parameters), std::move(offloaded));
}

Created create(const LarsSpec& spec, std::vector<OptimizedParameter> parameters,
               OffloadedStatePtr offloaded) {
  MUSTER_TRY(check_share("momentum", spec.momentum));
  MUSTER_TRY(check_decay(spec.weight_decay));
  if (!(spec.trust_coefficient > 0))
    return bad_field("trust_coefficient", spec.trust_coefficient, "above 0");
  return std::make_unique<Lars>(spec, std::move(parameters), std::move(offloaded));
}

Created create(const LambSpec& spec, std::vector<OptimizedParameter> parameters,
               OffloadedStatePtr offloaded) {
  MUSTER_TRY(check_moments(spec));
  return std::make_unique<Lamb>(spec, std::move(parameters), std::move(offloaded));
}

}  // namespace

Result<std::unique_ptr<Optimizer>> create_optimizer(const OptimizerSpec& spec,
                                                    std::vector<OptimizedParameter> parameters,
                                                    const AverageSpec& average,
                                                    std::shared_ptr<OffloadedState> offloaded) {
  MUSTER_TRY(check_share("decay", average.decay));
  MUSTER_ASSIGN(
      auto optimizer,
      std::visit([&](const auto& kind) { return create(kind, std::move(parameters), offloaded); },
                 spec));
  if (average.decay > 0) optimizer->keep_average(average);
  if (offloaded) MUSTER_TRY(offloaded->room());
  return optimizer;
}

}  // namespace muster::optim
