// stragglers RANKS SLOW FACTOR SHARING STEPS: SLOW is "last" (the last of RANKS workers computes
// FACTOR times slower) or "hiccups" (each worker does for an eighth of the time, 100 ms each);
// SHARING is "shared" (slices by speed), "even", or "helped" (by speed, and who waits computes for
// who is late). Trainer, strategy, data and sums are the real ones; what stands for the computing
// of a sample is a sleep of 1 ms, so that more workers than cores can be compared. Prints the
// samples/s of the second half of the steps and a hash of the weights.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "muster/base/hash.h"
#include "muster/base/random.h"
#include "muster/comm/backend/loopback/loopback.h"
#include "muster/models/mlp.h"
#include "muster/models/model.h"
#include "muster/parallel/data_parallel.h"
#include "muster/train/trainer.h"

namespace muster {
namespace {

constexpr std::int64_t kBatch = 256;
constexpr std::int32_t kSlices = 64;
constexpr std::int64_t kSamples = 1 << 16;
constexpr std::int64_t kWidth = 16;
constexpr auto kPerSample = std::chrono::milliseconds(1);

class Numbers final : public data::Source {
 public:
  std::int64_t size() const noexcept override { return kSamples; }
  const std::vector<data::FieldSpec>& fields() const noexcept override { return fields_; }
  Status read(std::int64_t index, std::span<const TensorView> into) const override {
    for (float& value : into[0].as<float>()) value = static_cast<float>(index % 7) - 3.0F;
    into[1].as<std::int64_t>()[0] = index % 10;
    return ok();
  }

 private:
  const std::vector<data::FieldSpec> fields_{{"image", DType::kF32, {kWidth}},
                                             {"label", DType::kI64, {}}};
};

// How much slower one is at present.
using Slowness = std::function<double()>;

Slowness hiccups(std::int32_t rank, double factor) {
  return [rank, factor] {
    const auto window =
        std::chrono::steady_clock::now().time_since_epoch() / std::chrono::milliseconds(100);
    const RandomStream random(1, "hiccups", static_cast<std::uint64_t>(window),
                              static_cast<std::uint64_t>(rank));
    return random.below(0, 8) == 0 ? factor : 1.0;
  };
}

std::unique_ptr<models::Model> sleeping_model(const Slowness& slowness) {
  const auto blocks = [] { return models::build_mlp({.inputs = kWidth, .hidden = {64}}); };
  const auto loss = [slowness](const torch::Tensor& logits, const torch::Tensor& target) {
    for (std::int64_t sample = 0; sample < target.size(0); ++sample)
      std::this_thread::sleep_for(slowness() * kPerSample);
    return models::cross_entropy_sum(logits, target);
  };
  auto model = std::make_unique<models::Model>("sleeping", blocks, loss);
  model->initialize(1);
  return model;
}

std::unique_ptr<parallel::DataParallel> strategy_of(const Slowness& slowness, bool backup) {
  auto model = sleeping_model(slowness);
  std::vector<optim::OptimizedParameter> parameters;
  for (const models::Parameter& p : model->parameters())
    parameters.push_back({p.name, p.tensor, p.decays});
  auto optimizer = optim::create_optimizer(optim::SgdSpec{}, parameters).value();
  return std::make_unique<parallel::DataParallel>(
      std::move(model), std::move(optimizer),
      parallel::SliceOptions{.virtual_workers = kSlices, .backup = backup}, system_clock());
}

class OneGeneration final : public train::Generations {
 public:
  explicit OneGeneration(std::shared_ptr<comm::Communicator> communicator) {
    entry_.communicator = std::move(communicator);
    for (std::int32_t rank = 0; rank < entry_.communicator->group().size; ++rank) {
      entry_.workers.push_back(rank);
      entry_.places.emplace_back("a thread");
    }
  }
  const train::Entry& current() const noexcept override { return entry_; }
  bool changing() const override { return false; }
  bool outlives(const Error&) const override { return false; }
  Result<std::optional<train::Entry>> next(const std::optional<Error>& why, Duration) override {
    return *why;
  }
  void tell_whole() override {}
  bool loses_somebody() const override { return false; }
  void resign() override {}
  bool leaving() const noexcept override { return false; }
  void quarantine(const Error&) override {}

 private:
  train::Entry entry_;
};

// When each step was committed.
class Times final : public observe::Sink {
 public:
  void take(const observe::Record& record) noexcept override {
    if (std::holds_alternative<observe::StepCommitted>(record)) at.push_back(system_clock().now());
  }
  std::vector<TimePoint> at;
};

struct Outcome {
  double rate = 0;
  std::string hash;
};

Outcome train_rank(const std::shared_ptr<comm::Communicator>& communicator,
                   const Slowness& slowness, std::string_view sharing, std::int64_t steps) {
  const bool helps = sharing == "helped";
  auto strategy = strategy_of(slowness, helps);
  OneGeneration generations(communicator);
  observe::Hub hub;
  const auto times = std::make_shared<Times>();
  const auto subscription = hub.subscribe(times);
  train::Checkpoints checkpoints({.folder = {}, .job = "bench", .writes = false}, system_files(),
                                 hub, system_clock());
  const auto pipeline = data::Pipeline::create(std::make_shared<Numbers>(), {}).value();
  train::TrainerOptions options;
  options.length = {.total_steps = steps, .steps_per_epoch = kSamples / kBatch};
  options.schedule = {.kind = optim::ScheduleKind::kConstant, .learning_rate = 0.01};
  options.evaluation.every = job::Interval::never();
  options.checkpoint.every = job::Interval::never();
  options.checkpoint.at_end = false;
  options.stragglers.rebalance = sharing != "even";
  options.stragglers.backup = helps;
  options.slices = kSlices;
  options.active = communicator->group().size;
  const auto open = [&](const data::Cursor& cursor, std::vector<SliceIndex> own, std::int32_t) {
    return data::BatchStream::create(pipeline,
                                     {.batch = kBatch, .slices = kSlices, .own = std::move(own)},
                                     cursor, system_clock());
  };
  train::Trainer trainer({.strategy = *strategy,
                          .generations = generations,
                          .checkpoints = checkpoints,
                          .hub = hub,
                          .clock = system_clock(),
                          .training_data = open,
                          .evaluation_data = {},
                          .peak_memory = [] { return std::uint64_t{0}; },
                          .stop_requested = [] { return false; },
                          .now_doing = [](Step, std::string_view) {}},
                         options, {});
  const auto outcome = trainer.run();
  if (!outcome) throw std::runtime_error(outcome.error().message);
  const auto half = static_cast<std::size_t>(steps / 2);
  const std::chrono::duration<double> took = times->at.back() - times->at[half - 1];
  Sha256 hash;
  for (const parallel::StateSlice& slice : strategy->model_state()) hash.update(slice.tensor.bytes);
  return {static_cast<double>(kBatch) * static_cast<double>(times->at.size() - half) / took.count(),
          to_hex(hash.finish())};
}

int run(std::int32_t ranks, std::string_view slow, double factor, std::string_view sharing,
        std::int64_t steps) {
  const auto communicators = comm::create_loopback(ranks);
  std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks));
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    const double always = rank + 1 == outcomes.size() && ranks > 1 ? factor : 1.0;
    const Slowness slowness = slow == "hiccups" ? hiccups(static_cast<std::int32_t>(rank), factor)
                                                : Slowness([always] { return always; });
    threads.emplace_back([&, rank, slowness] {
      outcomes[rank] = train_rank(communicators[rank], slowness, sharing, steps);
    });
  }
  threads.clear();
  fmt::print("{} {}\n", outcomes[0].rate, outcomes[0].hash);
  return 0;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  if (argc != 6) {
    fmt::print(stderr, "usage: stragglers RANKS last|hiccups FACTOR shared|even|helped STEPS\n");
    return 2;
  }
  at::set_num_threads(1);
  return muster::run(std::atoi(argv[1]), argv[2], std::atof(argv[3]), argv[4], std::atoll(argv[5]));
}
