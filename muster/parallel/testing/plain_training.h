#pragma once
// Four steps of plain data parallelism on ranks in one process, and a hash of what they come to.
// For tests.

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/hash.h"
#include "muster/comm/backend/loopback/loopback.h"
#include "muster/models/create.h"
#include "muster/parallel/data_parallel.h"
#include "muster/parallel/testing/toy_batch.h"

namespace muster::parallel {

inline std::string hash_of(DataParallel& strategy) {
  Sha256 hash;
  for (const StateSlice& slice : strategy.model_state()) hash.update(slice.tensor.bytes);
  for (const StateSlice& slice : strategy.optimizer_state()) hash.update(slice.tensor.bytes);
  return to_hex(hash.finish());
}

inline std::unique_ptr<DataParallel> make_strategy(const models::ModelSpec& spec,
                                                   std::shared_ptr<comm::Communicator> communicator,
                                                   const SliceOptions& options,
                                                   const comm::LeafOwners& owners,
                                                   Clock& clock = system_clock()) {
  auto model = models::create_model(spec).value();
  model->initialize(1);
  std::vector<optim::OptimizedParameter> parameters;
  for (const models::Parameter& p : model->parameters())
    parameters.push_back({p.name, p.tensor, p.decays});
  auto optimizer =
      optim::create_optimizer(optim::SgdSpec{.weight_decay = 1e-3}, parameters).value();
  auto strategy =
      std::make_unique<DataParallel>(std::move(model), std::move(optimizer), options, clock);
  EXPECT_TRUE(strategy->enter(std::move(communicator), owners));
  return strategy;
}

inline std::unique_ptr<DataParallel> make_strategy(const models::ModelSpec& spec,
                                                   std::shared_ptr<comm::Communicator> communicator,
                                                   const SliceOptions& options) {
  const comm::LeafOwners owners = comm::even_owners(kSlices, communicator->group().size);
  return make_strategy(spec, std::move(communicator), options, owners);
}

// In fp16 only.
inline std::optional<double> loss_scale_of(const SliceOptions& options) {
  if (options.compute.precision != models::Precision::kF16) return std::nullopt;
  return 1024;
}

struct Outcome {
  std::string hash;
  double loss = 0;
};

// What one rank has after four steps, the last of them of a short batch.
inline Outcome train(const models::ModelSpec& spec,
                     std::shared_ptr<comm::Communicator> communicator, const SliceOptions& options,
                     const comm::LeafOwners& owners) {
  const std::vector<std::int32_t> mine = slices_of(owners, communicator->group().rank);
  auto strategy = make_strategy(spec, std::move(communicator), options, owners);
  Outcome outcome;
  for (std::int64_t step = 1; step <= 4; ++step) {
    const Batch batch(step == 4 ? 5 : 21, mine, static_cast<std::uint64_t>(step), content_of(spec));
    const auto report = strategy->step({.batch = batch.step,
                                        .step = Step{step},
                                        .learning_rate = 0.05,
                                        .flags = {},
                                        .before_update = {},
                                        .loss_scale = loss_scale_of(options)});
    outcome.loss = report.value().loss;
  }
  outcome.hash = hash_of(*strategy);
  return outcome;
}

// counts[r] slices to rank r.
inline std::vector<Outcome> train_dealt(const models::ModelSpec& spec,
                                        const std::vector<std::int32_t>& counts,
                                        const SliceOptions& options) {
  const auto communicators = comm::create_loopback(static_cast<std::int32_t>(counts.size()));
  const comm::LeafOwners owners = comm::owners_by_count(counts);
  std::vector<Outcome> outcomes(counts.size());
  std::vector<std::jthread> ranks;
  for (std::size_t r = 0; r < outcomes.size(); ++r) {
    ranks.emplace_back([&, r] { outcomes[r] = train(spec, communicators[r], options, owners); });
  }
  ranks.clear();
  return outcomes;
}

inline std::vector<Outcome> train_together(const models::ModelSpec& spec, std::int32_t size,
                                           const SliceOptions& options) {
  std::vector<std::int32_t> counts;
  for (std::int32_t rank = 0; rank < size; ++rank)
    counts.push_back(comm::even_share(kSlices, size, rank).size());
  return train_dealt(spec, counts, options);
}

inline const models::ModelSpec kMlp =
    models::MlpSpec{.inputs = kImage * kImage, .hidden = {32}, .dropout = 0.3};
inline const models::ModelSpec kResNet =
    models::ResNetSpec{.channels = {8, 16}, .dropout = 0.1, .channels_last = true};
// Experts that take turns, some with no token at all in a slice of two or three samples.
inline const models::ModelSpec kMoe = models::MoeSpec{
    .body =
        models::LlamaSpec{
            .context = kContext, .width = 16, .layers = 2, .heads = 2, .hidden = 8, .dropout = 0.1},
    .experts = 12,
    .capacity_factor = 1.5};

}  // namespace muster::parallel
