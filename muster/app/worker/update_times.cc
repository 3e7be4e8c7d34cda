#include "muster/app/worker/update_times.h"

#include <ATen/ATen.h>

#include <memory>
#include <utility>

#include "muster/app/worker/build_model.h"
#include "muster/base/checksum.h"
#include "muster/base/median.h"

namespace muster::app {
namespace {

constexpr int kUpdates = 5;  // of which the median counts

Result<Duration> time_update(const job::JobSpec& job, const models::Model& block) {
  std::vector<optim::OptimizedParameter> parameters = own_parameters(block);
  if (parameters.empty()) return Duration{};
  std::vector<at::Tensor> gradients;
  gradients.reserve(parameters.size());
  for (const optim::OptimizedParameter& parameter : parameters)
    gradients.push_back(at::full_like(parameter.tensor.detach(), 1e-3));
  MUSTER_ASSIGN(const auto optimizer, build_optimizer(job, std::move(parameters)));
  std::vector<Duration> times;
  for (int round = 0; round < kUpdates; ++round) {
    const TimePoint began = system_clock().now();
    optimizer->begin_step(0);
    optimizer->update({0, gradients.size()}, gradients, 1);
    times.push_back(system_clock().now() - began);
  }
  return median(std::move(times));
}

Duration time_checksum(const models::Model& block) {
  Checksum sum;
  const TimePoint began = system_clock().now();
  for (const models::Parameter& parameter : block.parameters())
    sum.add({static_cast<const std::byte*>(parameter.tensor.const_data_ptr()),
             parameter.tensor.nbytes()});
  return system_clock().now() - began;
}

}  // namespace

std::vector<optim::OptimizedParameter> own_parameters(const models::Model& model) {
  std::vector<optim::OptimizedParameter> own;
  for (const models::Parameter& parameter : model.parameters())
    if (!parameter.borrowed) own.push_back({parameter.name, parameter.tensor, parameter.decays});
  return own;
}

Result<UpdateTimes> time_updates(const job::JobSpec& job, const models::Model& whole,
                                 std::size_t block, parallel::LanePool& lanes) {
  std::vector<std::unique_ptr<models::Model>> blocks;
  for (std::int32_t lane = 0; lane < lanes.size(); ++lane) {
    blocks.push_back(whole.part({block}));
    blocks.back()->initialize(job.seed);
  }
  std::vector<Duration> updates(blocks.size()), checksums(blocks.size());
  MUSTER_TRY(lanes.run([&](std::int32_t lane) -> Status {
    const auto at = static_cast<std::size_t>(lane);
    MUSTER_ASSIGN(updates[at], time_update(job, *blocks[at]));
    checksums[at] = time_checksum(*blocks[at]);
    return ok();
  }));
  return UpdateTimes{median(std::move(updates)), median(std::move(checksums))};
}

}  // namespace muster::app
