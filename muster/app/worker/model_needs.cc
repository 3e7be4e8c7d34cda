#include "muster/app/worker/model_needs.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "muster/app/worker/build_model.h"
#include "muster/base/units.h"
#include "muster/models/device.h"
#include "muster/models/torch_error.h"
#include "muster/observe/environment.h"

namespace muster::app {
namespace {

std::uint64_t weight_bytes(const models::Model& model) {
  std::uint64_t bytes = 0;
  for (const auto* parameters : {&model.parameters(), &model.frozen()})
    for (const models::Parameter& parameter : *parameters) bytes += parameter.tensor.nbytes();
  return bytes;
}

// On libtorch's device whose tensors have sizes, but no memory.
Result<std::string> needs_of(const job::JobSpec& job, const std::vector<data::FieldSpec>& fields,
                             const ComponentsPtr& own) {
  const models::ScopedDevice nowhere(c10::kMeta);
  MUSTER_ASSIGN(const auto model, build_model(job, fields, own));
  std::vector<optim::OptimizedParameter> trained;
  std::uint64_t gradients = 0;
  for (const models::Parameter& parameter : model->parameters()) {
    trained.push_back({parameter.name, parameter.tensor, parameter.decays});
    gradients += parameter.tensor.nbytes();
  }
  MUSTER_ASSIGN(const auto optimizer, build_optimizer(job, std::move(trained)));
  return fmt::format(
      "the whole model ({}) needs without activations: weights {}, gradients at least {}, "
      "optimizer {}",
      model->describe(), format_bytes(weight_bytes(*model)), format_bytes(gradients),
      format_bytes(optimizer->state_bytes()));
}

}  // namespace

Status check_weights(Files& files, const job::JobSpec& job, const models::Model& model) {
  const std::uint64_t memory = observe::read_environment(files).memory_bytes;
  const bool whole = job.strategy.core() != job::StrategyType::kPipeline;
  if (memory == 0 || !whole || weight_bytes(model) <= memory) return ok();
  return fail(ErrorCode::kUnavailable,
              fmt::format("[worker/model] the model's weights are larger than the memory of this "
                          "host, {}; a smaller model needs less",
                          format_bytes(memory)));
}

Error with_needs(Error why, const job::JobSpec& job, const std::vector<data::FieldSpec>& fields,
                 const ComponentsPtr& own) {
  if (why.code != ErrorCode::kUnavailable) return why;
  const auto needs =
      models::catch_torch("worker/model", [&] { return needs_of(job, fields, own); });
  if (needs) why.message += "; " + *needs;
  return why;
}

}  // namespace muster::app
