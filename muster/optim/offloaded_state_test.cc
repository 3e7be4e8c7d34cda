// State on a disk: the bits of state in memory, a few parameters' at a time.
#include "muster/optim/offloaded_state.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "muster/optim/norm_scaled.h"
#include "muster/optim/optimizer.h"
#include "muster/testing/temp_folder.h"

namespace muster::optim {
namespace {

constexpr std::int64_t kElements[] = {1, 3000, 40'003, 2, 17, 5000, 9000};
constexpr std::size_t kParameters = std::size(kElements);
constexpr std::uint64_t kWindow = 64'000;  // the third parameter's state is larger

// In memory, with what has been fetched and not yet released.
class CountedScratch final : public ScratchMemory {
 public:
  explicit CountedScratch(std::size_t room) : room_(room) {}

  Result<std::span<std::byte>> take(std::size_t bytes) override {
    if (bytes > room_) return fail(ErrorCode::kUnavailable, "[scratch/allocate] no room");
    room_ -= bytes;
    return std::span(*pieces_.emplace_back(std::make_unique<std::vector<std::byte>>(bytes)));
  }
  void fetch(std::span<const std::byte> bytes) noexcept override {
    here_ += bytes.size();
    most_ = std::max(most_, here_);
    fetched_ += bytes.size();
  }
  void release(std::span<const std::byte> bytes) noexcept override { here_ -= bytes.size(); }

  std::uint64_t here() const { return here_; }
  std::uint64_t most() const { return most_; }
  std::uint64_t fetched() const { return fetched_; }

 private:
  std::size_t room_;
  std::uint64_t here_ = 0, most_ = 0, fetched_ = 0;
  std::vector<std::unique_ptr<std::vector<std::byte>>> pieces_;
};

std::vector<torch::Tensor> initial_values() {
  std::vector<torch::Tensor> values;
  for (const auto size : kElements)
    values.push_back(torch::sin(torch::arange(size, torch::kFloat32) * 0.7f + 1));
  return values;
}

std::vector<torch::Tensor> gradients_at(std::int64_t step) {
  std::vector<torch::Tensor> gradients;
  for (const auto size : kElements)
    gradients.push_back(torch::cos(torch::arange(size, torch::kFloat32) * (0.3f + step)));
  return gradients;
}

std::vector<OptimizedParameter> parameters_over(const std::vector<torch::Tensor>& values) {
  std::vector<OptimizedParameter> parameters;
  for (std::size_t i = 0; i < values.size(); ++i)
    parameters.push_back({"p" + std::to_string(i), values[i], i % 2 == 0});
  return parameters;
}

// The values and the state after some steps. In halves: as who holds parts of tensors updates.
std::vector<torch::Tensor> trained(const OptimizerSpec& spec,
                                   std::shared_ptr<OffloadedState> offloaded, bool halves) {
  auto values = initial_values();
  auto optimizer =
      *create_optimizer(spec, parameters_over(values), {.decay = 0.5}, std::move(offloaded));
  for (std::int64_t step = 0; step < 4; ++step) {
    const auto gradients = gradients_at(step);
    optimizer->begin_step(0.05);
    NormScaled* const scaled = halves ? optimizer->norm_scaled() : nullptr;
    if (scaled == nullptr) {
      optimizer->update({0, 2}, std::span(gradients).first(2), 3);
      optimizer->update({2, kParameters}, std::span(gradients).subspan(2), 3);
      continue;
    }
    scaled->measure({0, kParameters}, gradients, 3);
    std::vector<NormSquares> wholes(kParameters);
    for (std::size_t i = 0; i < kParameters; ++i)
      for (const NormSquares& cell : scaled->squares(i)) {
        wholes[i].weights += cell.weights;
        wholes[i].direction += cell.direction;
      }
    scaled->finish({0, kParameters}, gradients, wholes);
  }
  for (const StateTensor& state : optimizer->state()) values.push_back(state.tensor.clone());
  return values;
}

const OptimizerSpec kOptimizers[] = {SgdSpec{.nesterov = true, .weight_decay = 0.1},
                                     SgdSpec{.momentum = 0}, AdamWSpec{.weight_decay = 0.1},
                                     LarsSpec{.weight_decay = 0.1}, LambSpec{.weight_decay = 0.1}};

void expect_same(const std::vector<torch::Tensor>& found,
                 const std::vector<torch::Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(torch::equal(found[i], expected[i]));
}

TEST(OffloadedState, ChangesNoBit) {
  testing::TempFolder folder;
  for (const OptimizerSpec& spec : kOptimizers)
    for (const bool halves : {false, true}) {
      auto scratch = create_scratch_memory(folder.path());
      ASSERT_TRUE(scratch) << scratch.error().message;
      const auto offloaded = std::make_shared<OffloadedState>(std::move(*scratch), kWindow);
      expect_same(trained(spec, offloaded, halves), trained(spec, nullptr, halves));
    }
}

TEST(OffloadedState, IsInMemoryByWindowsOfWhichTheNextIsFetched) {
  constexpr std::uint64_t kLargest = 3 * sizeof(float) * 40'003;
  for (const OptimizerSpec& spec : kOptimizers) {
    const auto scratch = std::make_shared<CountedScratch>(1 << 30);
    trained(spec, std::make_shared<OffloadedState>(scratch, kWindow), false);
    EXPECT_EQ(scratch->here(), 0) << "all is released";
    EXPECT_GT(scratch->fetched(), 0);
    EXPECT_LE(scratch->most(), kLargest + kWindow) << "a window, and the next";
  }
}

TEST(OffloadedState, OutlivesWhoCreatedIt) {
  auto values = initial_values();
  std::vector<StateTensor> state;
  {
    const auto scratch = std::make_shared<CountedScratch>(1 << 30);
    auto optimizer = *create_optimizer(AdamWSpec{}, parameters_over(values), {},
                                       std::make_shared<OffloadedState>(scratch, kWindow));
    optimizer->begin_step(0.1);
    optimizer->update({0, kParameters}, gradients_at(1));
    state = optimizer->state();
  }
  EXPECT_GT(state[2].tensor.abs().sum().item<double>(), 0);
}

TEST(OffloadedState, SaysWhereThereIsNoRoom) {
  for (const std::size_t room : {std::size_t{0}, std::size_t{300'000}, std::size_t{500'000}}) {
    const auto scratch = std::make_shared<CountedScratch>(room);
    const auto created =
        create_optimizer(AdamWSpec{}, parameters_over(initial_values()), {.decay = 0.5},
                         std::make_shared<OffloadedState>(scratch, kWindow));
    ASSERT_FALSE(created) << room;
    EXPECT_EQ(created.error().code, ErrorCode::kUnavailable);
    EXPECT_EQ(created.error().message, "[scratch/allocate] no room");
  }
}

}  // namespace
}  // namespace muster::optim
