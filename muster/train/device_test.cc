// A training whose model lies in memory that the host cannot touch ends with the same bits as one
// on the host, whatever happens to it.
#include "muster/models/device.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <memory>
#include <vector>

#include "muster/models/create.h"
#include "muster/models/testing/foreign_device.h"
#include "muster/parallel/expert/expert_parallel.h"
#include "muster/parallel/testing/on_ranks.h"
#include "muster/parallel/testing/toy_batch.h"
#include "muster/train/neighbour_copy.h"
#include "muster/train/testing/town.h"

namespace muster::train {
namespace {

Faults on_device(Faults faults = {}) {
  faults.on_foreign_device = true;
  return faults;
}

TEST(ForeignDevice, TrainsToTheSameBits) {
  expect_well(alone(on_device()), undisturbed());
  for (const std::int32_t size : {2, 3}) {
    Town town(size);
    for (const auto& [worker, end] : train(town, size, on_device()))
      expect_well(end, undisturbed());
  }
}

TEST(ForeignDevice, StandsADeath) {
  Town town(3);
  auto ends = train(town, 3, on_device({.death = Death{1, 8}}));
  EXPECT_EQ(ends.at(1).error, "dead");
  ends.erase(1);
  for (const auto& [worker, end] : ends) expect_well(end, undisturbed());
}

TEST(ForeignDevice, IsCopiedToWhoeverLacksAStep) {
  Town town(3);
  for (const auto& [worker, end] : train(town, 3, on_device({.breaks = Break{2, 9}})))
    expect_well(end, undisturbed());
}

TEST(ForeignDevice, GivesItsStateToNewcomers) {
  Town town(2, 9);
  for (const auto& [worker, end] : train(town, 2, on_device({.join = Join{6, {2, 3}}})))
    expect_well(end, undisturbed());
}

TEST(ForeignDevice, IsCheckedForSilentCorruption) {
  Town town(3);
  auto ends = train(town, 3, on_device({.flips = {{2, 8, 0}}}));
  EXPECT_EQ(town.quarantined, std::multiset<std::int32_t>{2});
  ends.erase(2);
  for (const auto& [worker, end] : ends) expect_well(end, undisturbed());
}

const models::MoeSpec kMixture{
    .body = models::GptSpec{.context = parallel::kContext, .width = 8, .layers = 1, .heads = 2},
    .experts = 4};

// Of one of two ranks, on a device of its own.
std::unique_ptr<parallel::ExpertParallel> half_of_experts(const comm::Group& group) {
  const models::ScopedDevice device(
      models::foreign_device(static_cast<c10::DeviceIndex>(to_int(group.rank))));
  const auto create = [](std::vector<optim::OptimizedParameter> parameters) {
    return optim::create_optimizer(optim::AdamWSpec{}, std::move(parameters));
  };
  layout::MeshExtents extents;
  extents[layout::Axis::kExpert] = 2;
  return parallel::ExpertParallel::create(
             models::create_model(kMixture).value(), create, {.seed = 5},
             {layout::Mesh::create(extents, 2).value(), group}, system_clock())
      .value();
}

std::vector<at::Tensor> weights_of(const parallel::ExpertParallel& strategy) {
  std::vector<at::Tensor> weights;
  for (const auto* list : {&strategy.model().parameters(), &strategy.model().expert_parameters()})
    for (const models::Parameter& parameter : *list)
      weights.push_back(parameter.tensor.detach().cpu().clone());
  return weights;
}

TEST(ForeignDevice, GetsItsPartFromItsNeighboursCopy) {
  const comm::OpOptions op{.timeout = std::chrono::seconds(60), .label = "copy"};
  const comm::LeafOwners owners = comm::even_owners(parallel::kSlices, 2);
  parallel::on_ranks(2, [&](const std::shared_ptr<comm::Communicator>& communicator) {
    const comm::Group& group = communicator->group();
    auto strategy = half_of_experts(group);
    ASSERT_TRUE(strategy->enter(communicator, owners));
    const parallel::Batch batch(21, parallel::slices_of(owners, group.rank), 1,
                                parallel::Batch::Content::kTokens);
    ASSERT_TRUE(strategy->step({.batch = batch.step,
                                .step = Step{1},
                                .learning_rate = 0.02,
                                .flags = {},
                                .before_update = {}}));
    NeighbourCopy copy(system_clock());
    ASSERT_TRUE(copy.enter(communicator, *strategy, op));
    copy.begin(*strategy, Step{1});
    copy.wait();
    const std::vector<at::Tensor> before = weights_of(*strategy);
    if (group.rank == Rank{1}) strategy = half_of_experts(group);
    const auto next = communicator->split(0, to_int(group.rank)).value();
    ASSERT_TRUE(strategy->enter(next, owners));
    ASSERT_TRUE(copy.enter(next, *strategy, op));
    if (group.rank == Rank{1}) {
      ASSERT_TRUE(NeighbourCopy::take(*next, *strategy, op));
      strategy->loaded(1);
    } else {
      ASSERT_TRUE(copy.give(*strategy));
    }
    const std::vector<at::Tensor> after = weights_of(*strategy);
    ASSERT_EQ(after.size(), before.size());
    for (std::size_t i = 0; i < after.size(); ++i) EXPECT_TRUE(torch::equal(after[i], before[i]));
  });
}

}  // namespace
}  // namespace muster::train
