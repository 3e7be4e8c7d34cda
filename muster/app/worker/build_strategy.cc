#include "muster/app/worker/build_strategy.h"

#include <utility>

#include "muster/app/worker/build_model.h"
#include "muster/parallel/data_parallel.h"
#include "muster/parallel/sharded.h"

namespace muster::app {
namespace {

comm::Algorithm algorithm_of(job::Algorithm algorithm) {
  switch (algorithm) {
    case job::Algorithm::kRing:
      return comm::Algorithm::kRing;
    case job::Algorithm::kTree:
      return comm::Algorithm::kTree;
    case job::Algorithm::kHalvingDoubling:
      return comm::Algorithm::kHalvingDoubling;
    case job::Algorithm::kAuto:
      break;
  }
  return comm::Algorithm::kAuto;
}

parallel::SliceOptions options_of(const job::JobSpec& job, std::int32_t lanes) {
  const job::TrainingSpec& training = job.training;
  return {.ordered = training.mode == job::TrainingMode::kOrdered,
          .virtual_workers = static_cast<std::int32_t>(training.virtual_workers),
          .lanes = static_cast<std::int32_t>(training.lanes.value_or(lanes)),
          .micro_batch_size = training.micro_batch_size,
          .max_grad_norm = training.max_grad_norm,
          .seed = job.seed,
          .bucket_sizes = {static_cast<std::int64_t>(job.communication.first_bucket_size.count),
                           static_cast<std::int64_t>(job.communication.bucket_size.count)},
          .op = build_op_options(job.communication),
          .elastic = job.workers.elastic(),
          .backup = job.stragglers.backup};
}

}  // namespace

comm::OpOptions build_op_options(const job::CommunicationSpec& communication) {
  return {.timeout = communication.timeout,
          .label = {},
          .algorithm = algorithm_of(communication.algorithm)};
}

Result<std::unique_ptr<parallel::SliceStrategy>> build_strategy(
    const job::JobSpec& job, std::unique_ptr<models::Model> model, std::int32_t lanes) {
  const parallel::SliceOptions options = options_of(job, lanes);
  if (job.strategy.type == job::StrategyType::kSharded) {
    const auto create = [optimizer = job.optimizer](std::vector<optim::OptimizedParameter> parts) {
      return build_optimizer(optimizer, std::move(parts));
    };
    MUSTER_ASSIGN(auto sharded,
                  parallel::Sharded::create(std::move(model), create, options, system_clock()));
    return sharded;
  }
  std::vector<optim::OptimizedParameter> parameters;
  for (const models::Parameter& parameter : model->parameters())
    parameters.push_back({parameter.name, parameter.tensor, parameter.decays});
  MUSTER_ASSIGN(auto optimizer, build_optimizer(job.optimizer, std::move(parameters)));
  return std::make_unique<parallel::DataParallel>(std::move(model), std::move(optimizer), options,
                                                  system_clock());
}

}  // namespace muster::app
