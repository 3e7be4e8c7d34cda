// pipeline SCHEDULE STAGES CHUNKS MICRO_BATCHES STEPS: a model of STAGES · CHUNKS blocks that sleep
// (60 ms forward, 60 backward for the input, 60 for the weights, of a stage's blocks together), so
// that more stages than cores can be measured. Strategy, schedule and messages are the real ones.
// Prints as JSON the median milliseconds of a step, what the simulated schedule takes with these
// costs, the share of a stage's time that is bubble in both, a hash of the weights, and how long
// the blocks of a stage sleep.
//
// pipeline SCHEDULE STAGES CHUNKS MICRO_BATCHES simulate COST…: only what is simulated, with the
// microseconds of each chunk's forward, backward for the input and backward for the weights.
#include "muster/parallel/pipeline/pipeline.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/hash.h"
#include "muster/comm/backend/loopback/loopback.h"
#include "muster/layout/pipeline/times.h"
#include "muster/models/model.h"

namespace muster {
namespace {

constexpr std::int64_t kWidth = 16;
// Of all blocks of a stage together.
constexpr auto kForward = std::chrono::milliseconds(60);
constexpr auto kBackwardInput = std::chrono::milliseconds(60);
constexpr auto kBackwardWeight = std::chrono::milliseconds(60);

// A copy that takes so many milliseconds, and in backward so many.
class Sleep final : public torch::autograd::Function<Sleep> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            std::int64_t forward, std::int64_t backward) {
    context->saved_data["backward"] = backward;
    std::this_thread::sleep_for(std::chrono::milliseconds(forward));
    return input.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    std::this_thread::sleep_for(std::chrono::milliseconds(context->saved_data["backward"].toInt()));
    return {gradients[0], at::Tensor(), at::Tensor()};
  }
};

class SleepingBlock final : public models::Block {
 public:
  explicit SleepingBlock(std::int64_t blocks)
      : blocks_(blocks), weight_(add_parameter({.name = "weight"}, {kWidth, kWidth})) {}
  at::Tensor forward(at::Tensor input, models::PassContext&) override {
    const at::Tensor slept =
        Sleep::apply(input, kForward.count() / blocks_, kBackwardInput.count() / blocks_);
    return at::linear(slept, Sleep::apply(weight_, 0, kBackwardWeight.count() / blocks_));
  }

 private:
  std::int64_t blocks_;  // of a stage
  at::Tensor weight_;
};

struct Run {
  layout::PipelineOptions schedule;
  std::int32_t steps = 1;

  std::int32_t chunks() const { return schedule.stages * *schedule.chunks_per_stage; }
};

models::Model sleeping_model(const Run& run) {
  return models::Model("sleeping", [run] {
    std::vector<models::NamedBlock> blocks;
    for (std::int32_t b = 0; b < run.chunks(); ++b)
      blocks.push_back({fmt::format("block{}", b),
                        std::make_shared<SleepingBlock>(*run.schedule.chunks_per_stage)});
    return blocks;
  });
}

// A micro-batch is one sample.
struct Samples {
  explicit Samples(std::int32_t count) : inputs(static_cast<std::size_t>(count) * kWidth) {
    step.samples = count;
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = static_cast<float>(i % 7) - 3;
    for (std::int32_t s = 0; s < count; ++s)
      step.slices.push_back(
          {.slice = SliceIndex{s},
           .positions = {s, s + 1},
           .samples = 1,
           .fields = {{"image",
                       {DType::kF32,
                        {1, kWidth},
                        std::as_writable_bytes(std::span(inputs).subspan(
                            static_cast<std::size_t>(s) * kWidth, kWidth))}},
                      {"label", {DType::kI64, {1}, std::as_writable_bytes(std::span(label))}}},
           .storage = nullptr});
  }
  std::vector<float> inputs;
  std::vector<std::int64_t> label{3};
  data::StepBatch step;
};

struct Measured {
  std::vector<double> steps;  // milliseconds
  std::string hash;
};

template <class T>
T checked(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

Measured train(const Run& run, std::shared_ptr<comm::Communicator> communicator) {
  const auto create = [](std::vector<optim::OptimizedParameter> parameters) {
    return optim::create_optimizer(optim::SgdSpec{}, std::move(parameters));
  };
  parallel::PipelineOptions options;
  options.schedule = run.schedule;
  for (std::int32_t chunk = 0; chunk < run.chunks(); ++chunk)
    options.chunks.push_back({chunk, chunk + 1});
  layout::MeshExtents stages;
  stages[layout::Axis::kPipeline] = run.schedule.stages;
  const parallel::MeshPlace place{checked(layout::Mesh::create(stages, run.schedule.stages)),
                                  communicator->group()};
  models::Model whole = sleeping_model(run);
  const auto strategy =
      checked(parallel::Pipeline::create(whole, 1, create, options, place, system_clock()));
  const comm::LeafOwners owners(static_cast<std::size_t>(run.schedule.micro_batches), Rank{0});
  if (const Status entered = strategy->enter(communicator, owners); !entered)
    throw std::runtime_error(entered.error().message);
  Samples samples(run.schedule.micro_batches);
  Measured measured;
  for (std::int32_t step = 1; step <= run.steps; ++step) {
    (void)communicator->submit(comm::Barrier{}, {}).wait();
    const TimePoint began = system_clock().now();
    checked(strategy->step({.batch = samples.step,
                            .step = Step{step},
                            .learning_rate = 0.01,
                            .flags = {},
                            .before_update = {}}));
    const std::chrono::duration<double, std::milli> took = system_clock().now() - began;
    measured.steps.push_back(took.count());
  }
  const auto state = checked(strategy->gather_state(Rank{0}));
  Sha256 hash;
  for (const TensorSlice& slice : state.model) hash.update(slice.tensor.bytes);
  measured.hash = to_hex(hash.finish());
  return measured;
}

Measured train_all(const Run& run) {
  const auto communicators = comm::create_loopback(run.schedule.stages);
  std::vector<Measured> measured(communicators.size());
  std::vector<std::jthread> ranks;
  for (std::size_t r = 0; r < communicators.size(); ++r)
    ranks.emplace_back([&, r] { measured[r] = train(run, communicators[r]); });
  ranks.clear();
  std::ranges::sort(measured.front().steps);
  return measured.front();
}

double in_milliseconds(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

struct Simulated {
  double step = 0;  // milliseconds
  double busy = 0;  // of these, the mean of the stages

  double bubble_of(double took) const { return 1 - busy / took; }
};

Simulated simulate(const Run& run, const layout::PipelineCosts& costs) {
  const auto schedule = checked(layout::make_schedule(run.schedule));
  const auto times = checked(layout::play(schedule, costs));
  Duration pass{};
  for (const layout::ChunkCost& chunk : costs.chunks)
    pass += chunk.forward + chunk.backward_input + chunk.backward_weight;
  return {.step = in_milliseconds(layout::makespan(times)),
          .busy = in_milliseconds(pass * run.schedule.micro_batches) / run.schedule.stages};
}

layout::PipelineCosts sleeping_costs(const Run& run) {
  const layout::ChunkCost model{.forward = kForward * run.schedule.stages,
                                .backward_input = kBackwardInput * run.schedule.stages,
                                .backward_weight = kBackwardWeight * run.schedule.stages};
  return layout::equal_costs(model, run.chunks());
}

layout::PipelineCosts costs_of(const Run& run, std::span<const std::string> words) {
  constexpr std::size_t kEach = 3;
  if (words.size() != kEach * static_cast<std::size_t>(run.chunks()))
    throw std::runtime_error(fmt::format("expected three costs for each of the {} chunks, found {}",
                                         run.chunks(), words.size()));
  const auto cost = [&](std::size_t at) {
    return std::chrono::microseconds(std::stoll(words[at]));
  };
  layout::PipelineCosts costs;
  for (std::size_t at = 0; at < words.size(); at += kEach)
    costs.chunks.push_back(
        {.forward = cost(at), .backward_input = cost(at + 1), .backward_weight = cost(at + 2)});
  return costs;
}

void tell_simulated(const Simulated& ideal) {
  fmt::print("{{\"simulated_ms\": {:.2f}, \"simulated_bubble\": {:.4f}}}\n", ideal.step,
             ideal.bubble_of(ideal.step));
}

void tell_measured(const Run& run) {
  const Measured measured = train_all(run);
  const Simulated ideal = simulate(run, sleeping_costs(run));
  const double step = measured.steps[measured.steps.size() / 2];
  fmt::print(
      "{{\"step_ms\": {:.2f}, \"simulated_ms\": {:.2f}, \"bubble\": {:.4f}, "
      "\"simulated_bubble\": {:.4f}, \"weights\": \"{}\", \"sleeps_ms\": [{}, {}, {}]}}\n",
      step, ideal.step, ideal.bubble_of(step), ideal.bubble_of(ideal.step), measured.hash,
      kForward.count(), kBackwardInput.count(), kBackwardWeight.count());
}

int main_of(const std::vector<std::string>& words) {
  const bool simulates = words.size() > 6 && words[5] == "simulate";
  if (words.size() != 6 && !simulates) {
    fmt::print(stderr,
               "usage: pipeline SCHEDULE STAGES CHUNKS MICRO_BATCHES STEPS\n"
               "       pipeline SCHEDULE STAGES CHUNKS MICRO_BATCHES simulate COST...\n");
    return 2;
  }
  Run run;
  run.schedule.kind = checked(layout::pipeline_kind_from_string(words[1]));
  run.schedule.stages = std::stoi(words[2]);
  run.schedule.chunks_per_stage = std::stoi(words[3]);
  run.schedule.micro_batches = std::stoi(words[4]);
  if (simulates) {
    tell_simulated(simulate(run, costs_of(run, std::span(words).subspan(6))));
    return 0;
  }
  run.steps = std::stoi(words[5]);
  tell_measured(run);
  return 0;
}

}  // namespace
}  // namespace muster

int main(int count, char** words) {
  at::set_num_threads(1);
  try {
    return muster::main_of({words, words + count});
  } catch (const std::exception& why) {
    fmt::print(stderr, "{}\n", why.what());
    return 1;
  }
}
