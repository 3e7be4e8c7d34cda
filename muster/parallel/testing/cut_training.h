#pragma once
// Trainings of models that lie in parts on several ranks, by blocks or by tensors, and of the same
// models on one rank, and what they come to. For tests.

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/glob.h"
#include "muster/comm/backend/loopback/loopback.h"
#include "muster/models/create.h"
#include "muster/models/device.h"
#include "muster/parallel/data_parallel.h"
#include "muster/parallel/mesh_place.h"
#include "muster/parallel/model_strategy.h"
#include "muster/parallel/tensor_bridge.h"
#include "muster/parallel/testing/on_ranks.h"
#include "muster/parallel/testing/toy_batch.h"

namespace muster::parallel::cut {

inline constexpr std::uint64_t kSeed = 5;
inline constexpr models::Compute kBF16{.precision = models::Precision::kBF16};
inline constexpr models::Compute kFP16{.precision = models::Precision::kF16};

// What is trained, however it is cut.
struct Recipe {
  std::string name;
  models::ModelSpec model;
  std::int32_t replicas = 1;  // of ranks that keep all of the optimizer's state of theirs
  std::int64_t micro_batch_size = 0;
  optim::OptimizerSpec optimizer = optim::AdamWSpec{.weight_decay = 0.1};
  std::vector<std::string> freeze = {};  // patterns
  double average = 0;                    // AverageSpec::decay
  double smoothing = 0;
  models::Compute compute = {};
  models::AdapterSpec adapters = {};
  std::vector<std::string> recompute = {};  // patterns; where it is cut only
  DType reduce = DType::kF32;
  c10::Device device = c10::kCPU;  // where the model lies
};

inline models::MlpSpec mlp() { return {.inputs = 64, .hidden = {32, 24, 17}, .dropout = 0.1}; }

// With a shortcut that is a convolution, and one that is not.
inline models::ResNetSpec resnet_with(models::NormKind norm,
                                      std::vector<std::int64_t> channels = {10, 14}) {
  return {.channels = std::move(channels), .norm = norm, .dropout = 0.1};
}
// How far one may be, for the largest value of a tensor: rounding switches a ReLU here and there.
inline constexpr double kSwitchedRelus = 3e-3;

// Its heads can be shared out among 2, 3 and 4 ranks.
inline models::GptSpec gpt(std::int64_t layers, bool tied) {
  return {.vocabulary = 64,
          .context = kContext,
          .width = 24,
          .layers = layers,
          .heads = 12,
          .dropout = 0.1,
          .tied_head = tied};
}

// The same, and its heads for keys among 2 and 3.
inline models::LlamaSpec grouped_llama(std::int64_t context = kContext) {
  return {.vocabulary = 64,
          .context = context,
          .width = 24,
          .layers = 2,
          .heads = 12,
          .kv_heads = 6,
          .hidden = 40,
          .dropout = 0.1};
}

// Its steps are those of gradients far above the rounding: an epsilon below would make rounding
// noise, as in biases of keys, whose gradients are zero, into steps of the learning rate.
inline constexpr optim::AdamWSpec kSteady{.epsilon = 1e-3, .weight_decay = 0.1};

inline std::unique_ptr<models::Model> model_of(const Recipe& recipe) {
  const models::ScopedDevice here(recipe.device);
  auto model = models::create_model(recipe.model, recipe.adapters).value();
  model->smooth_labels(recipe.smoothing);
  model->freeze([&](const models::Parameter& parameter) {
    return matches_any(recipe.freeze, parameter.name);
  });
  return model;
}

inline std::unique_ptr<models::Model> recomputed_model_of(const Recipe& recipe) {
  auto model = model_of(recipe);
  model->recompute([&](const std::string& block) { return matches_any(recipe.recompute, block); });
  return model;
}

inline auto optimizer_of(const Recipe& recipe) {
  return [recipe](std::vector<optim::OptimizedParameter> parameters) {
    return optim::create_optimizer(recipe.optimizer, std::move(parameters),
                                   {.decay = recipe.average});
  };
}

inline SliceOptions options_of(const Recipe& recipe) {
  return {.virtual_workers = kSlices,
          .micro_batch_size = recipe.micro_batch_size,
          .max_grad_norm = 0.5,
          .compute = recipe.compute,
          .seed = kSeed,
          .bucket_sizes = {.first_bytes = 1 << 10, .bytes = 1 << 12, .dtype = recipe.reduce}};
}

// In fp16 the second step overflows.
inline constexpr int kOverflow = 2;
inline std::optional<double> loss_scale_of(const Recipe& recipe, int step) {
  if (recipe.compute.precision != models::Precision::kF16) return std::nullopt;
  return step == kOverflow ? 1e30 : 1024;
}

struct Outcome {
  std::map<std::string, at::Tensor> state;  // on the first rank: whole tensors
  std::vector<std::string> order;           // of their names
  std::map<std::string, at::Tensor> own;    // parameters that this rank holds whole
  double loss = 0, grad_norm = 0, evaluation = 0, correct = 0, average_evaluation = 0;
  std::map<std::string, double> metrics;
  std::map<int, std::string> overflows;  // by step
  bool stopped = false;
};

// Of the mesh that has as many replicas as ranks fill, along the first axis.
inline Result<MeshPlace> place_in(const layout::MeshExtents& wanted, const comm::Group& group) {
  layout::MeshExtents extents = wanted;
  extents[layout::Axis::kReplicate] = layout::kRest;
  MUSTER_ASSIGN(auto mesh, layout::Mesh::create(extents, group.size));
  return MeshPlace{std::move(mesh), group};
}
inline layout::MeshExtents along(layout::Axis axis, std::int32_t ranks, std::int32_t shards = 1) {
  layout::MeshExtents extents;
  extents[axis] = ranks;
  extents[layout::Axis::kShard] = shards;
  return extents;
}

// Each slice to the first rank of a replica, in turns where the strategy wants it.
inline comm::LeafOwners owners_of(const ModelStrategy& strategy, std::int32_t ranks) {
  std::vector<Rank> firsts;
  for (std::int32_t rank = 0; rank < ranks; ++rank)
    if (strategy.first_of_replica(Rank{rank}) == Rank{rank}) firsts.push_back(Rank{rank});
  const auto replicas = static_cast<std::int32_t>(firsts.size());
  const std::int32_t in_turns = strategy.ranks_in_turns(replicas);
  comm::LeafOwners owners;
  for (std::int32_t first = 0; first < replicas; first += in_turns) {
    std::vector<std::int32_t> counts;
    for (std::int32_t replica = first; replica < first + in_turns; ++replica)
      counts.push_back(comm::even_share(kSlices, replicas, replica).size());
    for (const Rank owner : comm::owners_in_turns(counts))
      owners.push_back(firsts[static_cast<std::size_t>(to_int(owner) + first)]);
  }
  return owners;
}

inline void add(Outcome& outcome, const std::vector<StateSlice>& slices) {
  for (const StateSlice& slice : slices) {
    ASSERT_EQ(slice.tensor.shape, slice.global_shape) << slice.name;
    EXPECT_TRUE(outcome.state.emplace(slice.name, tensor_over(slice.tensor).clone()).second);
    outcome.order.push_back(slice.name);
  }
}

inline EvaluationTotals evaluate(ModelStrategy& strategy, const Batch& batch) {
  std::vector<EvaluationTotals> by_slice(kSlices);
  EXPECT_TRUE(strategy.evaluate(batch.step, by_slice));
  const auto totals = strategy.combine(by_slice);
  EXPECT_TRUE(totals) << (totals ? "" : totals.error().message);
  return totals ? *totals : EvaluationTotals{};
}

// Batches of 40, 33 and 7 samples in turn: short ones and empty slices among them.
inline Result<StepReport> try_step(ModelStrategy& strategy, const Recipe& recipe,
                                   const std::vector<std::int32_t>& mine, int step, Flags flags,
                                   std::function<Status(std::uint64_t)> check_sums = {},
                                   double learning_rate = 0.02) {
  constexpr std::int64_t kInTurn[] = {40, 33, 7};
  const Batch batch(kInTurn[(step - 1) % 3], mine, static_cast<std::uint64_t>(step),
                    content_of(recipe.model), context_of(recipe.model));
  return strategy.step({.batch = batch.step,
                        .step = Step{step},
                        .learning_rate = learning_rate,
                        .flags = flags,
                        .before_update = {},
                        .loss_scale = loss_scale_of(recipe, step),
                        .check_sums = std::move(check_sums)});
}

inline bool make_step(ModelStrategy& strategy, const Recipe& recipe,
                      const std::vector<std::int32_t>& mine, int step, Flags flags,
                      Outcome& outcome) {
  const auto report = try_step(strategy, recipe, mine, step, flags);
  EXPECT_TRUE(report) << (report ? "" : report.error().message);
  if (!report) return false;
  if (report->overflow) outcome.overflows[step] = *report->overflow;
  outcome.loss = report->loss;
  outcome.grad_norm = report->grad_norm;
  outcome.stopped = report->flags.has(Flag::kStop);
  for (const observe::Metric& metric : report->model_metrics)
    outcome.metrics[metric.name] = metric.value;
  return true;
}

// Of the trained weights and, where there are any, of the averaged ones.
inline void make_evaluations(ModelStrategy& strategy, const Recipe& recipe,
                             const std::vector<std::int32_t>& mine, Outcome& outcome) {
  const Batch batch(21, mine, 99, content_of(recipe.model), context_of(recipe.model));
  const EvaluationTotals trained = evaluate(strategy, batch);
  outcome.evaluation = trained.loss;
  outcome.correct = trained.correct;
  if (recipe.average == 0) return;
  EXPECT_TRUE(strategy.use_average(true));
  outcome.average_evaluation = evaluate(strategy, batch).loss;
  EXPECT_NE(outcome.average_evaluation, outcome.evaluation);
  EXPECT_TRUE(strategy.use_average(false));
  EXPECT_EQ(evaluate(strategy, batch).loss, outcome.evaluation);
}

// The last rank alone wants to stop at the last step.
inline Outcome train(ModelStrategy& strategy,
                     const std::shared_ptr<comm::Communicator>& communicator, const Recipe& recipe,
                     int steps) {
  const comm::Group group = communicator->group();
  const comm::LeafOwners owners = owners_of(strategy, group.size);
  const auto mine = slices_of(owners, strategy.first_of_replica(group.rank));
  const auto entered = strategy.enter(communicator, owners);
  EXPECT_TRUE(entered) << (entered ? "" : entered.error().message);
  Outcome outcome;
  for (int step = 1; step <= steps; ++step) {
    Flags flags;
    if (step == steps && to_int(group.rank) == group.size - 1) flags.set(Flag::kStop);
    if (!make_step(strategy, recipe, mine, step, flags, outcome)) return outcome;
  }
  make_evaluations(strategy, recipe, mine, outcome);
  const auto state = strategy.gather_state(Rank{0});
  EXPECT_TRUE(state) << (state ? "" : state.error().message);
  if (state && group.rank == Rank{0}) {
    add(outcome, state->model);
    add(outcome, state->optimizer);
  }
  const auto has_memory = [](const at::Tensor& t) { return t.storage().data() != nullptr; };
  for (const models::Parameter& parameter : strategy.model().parameters())
    if (!parameter.cut.is_part() && has_memory(parameter.tensor))
      outcome.own[parameter.name] = parameter.tensor.detach().cpu().clone();
  return outcome;
}

// Plain data parallelism on one rank.
inline Outcome train_plain(const Recipe& recipe, int steps) {
  auto model = model_of(recipe);
  model->initialize(kSeed);
  std::vector<optim::OptimizedParameter> parameters;
  for (const models::Parameter& parameter : model->parameters())
    parameters.push_back({parameter.name, parameter.tensor, parameter.decays});
  DataParallel strategy(std::move(model), optimizer_of(recipe)(std::move(parameters)).value(),
                        options_of(recipe), system_clock());
  return train(strategy, comm::create_loopback(1).front(), recipe, steps);
}

// What `size` ranks come to. `train_rank` is called by each of them, on a thread of its own.
inline std::vector<Outcome> train_ranks(
    std::int32_t size,
    const std::function<Outcome(const std::shared_ptr<comm::Communicator>&)>& train_rank) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(size));
  on_ranks(size, [&](const std::shared_ptr<comm::Communicator>& communicator) {
    const auto rank = static_cast<std::size_t>(to_int(communicator->group().rank));
    outcomes[rank] = train_rank(communicator);
  });
  return outcomes;
}

// The tests of a suite look at the same training: each recipe is trained once in a process.
class Trained {
 public:
  const std::vector<Outcome>& once(const std::string& recipe,
                                   const std::function<std::vector<Outcome>()>& train) {
    const auto known = outcomes_.find(recipe);
    return known != outcomes_.end() ? known->second
                                    : outcomes_.emplace(recipe, train()).first->second;
  }

 private:
  std::map<std::string, std::vector<Outcome>> outcomes_;
};

inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

// Of two ranks the one that waits in a step names the other, which is gone. `make`: a strategy over
// both, for a group and options of operations.
template <class Make>
void expect_names_who_does_not_come(const Make& make, std::int64_t context) {
  on_ranks(2, [&](const std::shared_ptr<comm::Communicator>& communicator) {
    const bool waits = communicator->group().rank == Rank{0};
    const auto timeout = std::chrono::milliseconds(waits ? 300 : 30000);
    const auto strategy =
        make(communicator->group(), comm::OpOptions{.timeout = timeout, .label = {}}).value();
    const comm::LeafOwners owners = owners_of(*strategy, 2);
    ASSERT_TRUE(strategy->enter(communicator, owners));
    if (!waits) return;
    const Batch batch(40, slices_of(owners, Rank{0}), 3, Batch::Content::kTokens, context);
    const auto report = strategy->step({.batch = batch.step,
                                        .step = Step{1},
                                        .learning_rate = 0.02,
                                        .flags = {},
                                        .before_update = {}});
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().peer, Rank{1}) << report.error().message;
  });
}

inline void expect_same_state(const Outcome& found, const Outcome& wanted) {
  ASSERT_EQ(found.order, wanted.order);
  for (const auto& [name, tensor] : wanted.state)
    EXPECT_TRUE(same_bits(found.state.at(name), tensor)) << name;
}

inline void expect_same_figures(const Outcome& found, const Outcome& wanted) {
  EXPECT_EQ(found.loss, wanted.loss);
  EXPECT_EQ(found.grad_norm, wanted.grad_norm);
  EXPECT_EQ(found.evaluation, wanted.evaluation);
  EXPECT_EQ(found.correct, wanted.correct);
  EXPECT_EQ(found.average_evaluation, wanted.average_evaluation);
  EXPECT_EQ(found.metrics, wanted.metrics);
  EXPECT_EQ(found.overflows, wanted.overflows);
}

}  // namespace muster::parallel::cut
