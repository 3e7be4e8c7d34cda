// Batch norm over the slices of a batch, each on a thread, against libtorch's over all of it.

#include "muster/models/sync_batch_norm.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <barrier>
#include <thread>
#include <vector>

#include "muster/models/layers.h"
#include "muster/models/recompute.h"
#include "muster/models/testing/gradient_check.h"

namespace muster::models {
namespace {

// Threads that bring a tensor each and leave with the sum, in their order.
class Table {
 public:
  explicit Table(std::size_t seats) : brought_(seats), all_(static_cast<std::ptrdiff_t>(seats)) {}

  class Seat final : public BatchGroup {
   public:
    Seat(Table& table, std::size_t seat) : table_(table), seat_(seat) {}
    torch::Tensor sum(const torch::Tensor& addend, std::string_view) const override {
      EXPECT_EQ(addend.scalar_type(), torch::kFloat64);
      EXPECT_EQ(addend.dim(), 1);
      table_.brought_[seat_] = addend.clone();
      table_.all_.arrive_and_wait();
      torch::Tensor total = table_.brought_.front().clone();
      for (std::size_t s = 1; s < table_.brought_.size(); ++s) total += table_.brought_[s];
      table_.all_.arrive_and_wait();
      ++meetings_;
      return total;
    }
    int meetings() const { return meetings_; }

   private:
    Table& table_;
    const std::size_t seat_;
    mutable int meetings_ = 0;
  };

 private:
  std::vector<torch::Tensor> brought_;
  std::barrier<> all_;
};

// Uneven ones, one of them empty.
const std::vector<std::int64_t> kSizes{3, 1, 0, 4};

template <class Body>
void at_once(const Body& body) {
  Table table(kSizes.size());
  std::vector<std::jthread> threads;
  for (std::size_t s = 0; s < kSizes.size(); ++s)
    threads.emplace_back([&, s] {
      const Table::Seat seat(table, s);
      body(s, seat);
    });
}

struct BatchInputs {
  torch::Tensor input, weight, bias, seed;
};

// Means far from zero, and different from slice to slice.
BatchInputs batch_inputs(torch::ScalarType type, torch::MemoryFormat format) {
  const auto image = wavy({8, 3, 4, 5}) + torch::arange(8, torch::kFloat64).view({8, 1, 1, 1}) +
                     7 * torch::arange(3, torch::kFloat64).view({1, 3, 1, 1});
  const auto f = type == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
  return {image.to(type).contiguous(format), (wavy({3}, 0.4) + 2).to(f), wavy({3}, 0.9).to(f),
          wavy({8, 3, 4, 5}, 0.2).to(type).contiguous(format)};
}

struct FoundOver {
  torch::Tensor output, mean, variance;
  torch::Tensor d_input, d_weight, d_bias;
};

FoundOver over_slices(const BatchInputs& of) {
  std::vector<FoundOver> parts(kSizes.size());
  const auto inputs = of.input.split_with_sizes(kSizes), seeds = of.seed.split_with_sizes(kSizes);
  at_once([&](std::size_t s, const Table::Seat& seat) {
    const auto leaf = [](const torch::Tensor& value) {
      return value.detach().clone().requires_grad_();
    };
    const SyncNorm norm{leaf(inputs[s]), leaf(of.weight), leaf(of.bias), 1e-5};
    const SyncNormed found = sync_batch_norm(norm, seat);
    found.output.backward(seeds[s]);
    EXPECT_EQ(seat.meetings(), 2);
    parts[s] = {found.output.detach(), found.mean,         found.variance,
                norm.input.grad(),     norm.weight.grad(), norm.bias.grad()};
  });
  std::vector<torch::Tensor> outputs, d_inputs;
  FoundOver all = parts.front();
  for (std::size_t s = 0; s < parts.size(); ++s) {
    outputs.push_back(parts[s].output);
    d_inputs.push_back(parts[s].d_input);
    EXPECT_TRUE(parts[s].mean.equal(all.mean) && parts[s].variance.equal(all.variance)) << s;
    if (s == 0) continue;
    all.d_weight = all.d_weight + parts[s].d_weight;
    all.d_bias = all.d_bias + parts[s].d_bias;
  }
  all.output = torch::cat(outputs);
  all.d_input = torch::cat(d_inputs);
  return all;
}

// In f64.
FoundOver over_batch(const BatchInputs& of) {
  const auto leaf = [](const torch::Tensor& value) {
    return value.detach().to(torch::kFloat64).clone().requires_grad_();
  };
  const auto input = leaf(of.input), weight = leaf(of.weight), bias = leaf(of.bias);
  FoundOver found;
  found.mean = torch::zeros(3, torch::kFloat64);
  found.variance = torch::zeros(3, torch::kFloat64);
  found.output =
      torch::batch_norm(input, weight, bias, found.mean, found.variance, true, 1.0, 1e-5, false);
  found.output.backward(of.seed.to(torch::kFloat64));
  found.output = found.output.detach();
  found.d_input = input.grad();
  found.d_weight = weight.grad();
  found.d_bias = bias.grad();
  return found;
}

void expect_near(const torch::Tensor& found, const torch::Tensor& wanted, double apart,
                 const char* what) {
  ASSERT_EQ(found.sizes(), wanted.sizes()) << what;
  const double largest = (found.to(torch::kFloat64) - wanted).abs().max().item<double>();
  EXPECT_LE(largest, apart * (1 + wanted.abs().max().item<double>())) << what;
}

void expect_whole_batch(const BatchInputs& of, double apart) {
  const FoundOver found = over_slices(of), wanted = over_batch(of);
  EXPECT_EQ(found.output.scalar_type(), of.input.scalar_type());
  expect_near(found.output, wanted.output, apart, "output");
  expect_near(found.mean, wanted.mean, 1e-12, "mean");
  expect_near(found.variance, wanted.variance, 1e-12, "variance");
  expect_near(found.d_input, wanted.d_input, apart, "gradient of the input");
  expect_near(found.d_weight, wanted.d_weight, apart, "gradient of the weight");
  expect_near(found.d_bias, wanted.d_bias, apart, "gradient of the bias");
}

TEST(SyncBatchNorm, IsThatOfTheWholeBatch) {
  expect_whole_batch(batch_inputs(torch::kFloat64, torch::MemoryFormat::Contiguous), 1e-12);
  expect_whole_batch(batch_inputs(torch::kFloat32, torch::MemoryFormat::Contiguous), 2e-6);
  expect_whole_batch(batch_inputs(torch::kFloat32, torch::MemoryFormat::ChannelsLast), 2e-6);
  expect_whole_batch(batch_inputs(torch::kBFloat16, torch::MemoryFormat::ChannelsLast), 2e-2);
}

// Of vectors, and where the mean is 3000 times the deviation.
TEST(SyncBatchNorm, KeepsItsDigitsFarFromZero) {
  BatchInputs of = batch_inputs(torch::kFloat32, torch::MemoryFormat::Contiguous);
  of.input = (of.input.mean({2, 3}) + 6000).contiguous();
  of.seed = of.seed.sum({2, 3}).contiguous();
  const FoundOver found = over_slices(of), wanted = over_batch(of);
  expect_near(found.variance, wanted.variance, 1e-7, "variance");
  expect_near(found.d_weight, wanted.d_weight, 1e-5, "gradient of the weight");
}

TEST(SyncBatchNorm, FollowsTheMemoryFormat) {
  const BatchInputs of = batch_inputs(torch::kFloat32, torch::MemoryFormat::ChannelsLast);
  const auto inputs = of.input.split_with_sizes(kSizes);
  at_once([&](std::size_t s, const Table::Seat& seat) {
    const auto output = sync_batch_norm({inputs[s], of.weight, of.bias, 1e-5}, seat).output;
    EXPECT_TRUE(kSizes[s] == 0 || output.is_contiguous(torch::MemoryFormat::ChannelsLast)) << s;
    EXPECT_FALSE(output.requires_grad());
  });
}

// Whoever asks for no gradient of the input, as below a frozen stem, meets nobody on the way back.
TEST(SyncBatchNorm, MeetsOnlyForWhatIsWanted) {
  const BatchInputs of = batch_inputs(torch::kFloat32, torch::MemoryFormat::Contiguous);
  const FoundOver whole = over_slices(of);
  const auto inputs = of.input.split_with_sizes(kSizes), seeds = of.seed.split_with_sizes(kSizes);
  std::vector<torch::Tensor> gradients(kSizes.size());
  at_once([&](std::size_t s, const Table::Seat& seat) {
    const auto weight = of.weight.detach().clone().requires_grad_();
    sync_batch_norm({inputs[s], weight, of.bias, 1e-5}, seat).output.backward(seeds[s]);
    EXPECT_EQ(seat.meetings(), 1);
    gradients[s] = weight.grad();
  });
  torch::Tensor sum = gradients.front();
  for (std::size_t s = 1; s < gradients.size(); ++s) sum = sum + gradients[s];
  EXPECT_TRUE(sum.equal(whole.d_weight));
}

class NormThenRelu final : public Block {
 public:
  NormThenRelu() : norm_(*this, "norm", 3) {}
  torch::Tensor forward(torch::Tensor input, PassContext& context) override {
    return norm_.relu(input, input * 0.5, context);
  }

 private:
  BatchNorm norm_;
};

struct Passed {
  torch::Tensor output, d_input, d_weight;
  std::vector<torch::Tensor> statistics;
};

Passed go_through(const std::shared_ptr<Block>& block, const torch::Tensor& value,
                  const torch::Tensor& seed, const BatchGroup* group, bool recomputed) {
  const auto input = value.detach().clone(torch::MemoryFormat::Preserve).requires_grad_();
  Passed passed;
  PassContext context{
      .random = RandomStream(1, "test"), .statistics = &passed.statistics, .batch = group};
  const auto output =
      recomputed ? run_recomputed(block, input, context) : run_block(*block, input, context);
  output.backward(seed);
  passed.output = output.detach();
  passed.d_input = input.grad();
  passed.d_weight = block->parameters()[0].tensor.grad();
  return passed;
}

std::shared_ptr<Block> new_block() {
  auto block = std::make_shared<NormThenRelu>();
  const at::NoGradGuard no_grad;
  for (const BlockParameter& parameter : block->parameters())
    parameter.tensor.copy_(wavy({3}, parameter.init.kind == InitKind::kOnes ? 0.4 : 0.9));
  return block;
}

std::vector<Passed> pass_slices(const BatchInputs& of, bool recomputed) {
  const auto inputs = of.input.split_with_sizes(kSizes), seeds = of.seed.split_with_sizes(kSizes);
  std::vector<Passed> passed(kSizes.size());
  at_once([&](std::size_t s, const Table::Seat& seat) {
    passed[s] = go_through(new_block(), inputs[s], seeds[s], &seat, recomputed);
    EXPECT_EQ(seat.meetings(), recomputed ? 3 : 2);
  });
  return passed;
}

// The layer takes its fused operation where it does so over the whole batch.
TEST(SyncBatchNorm, WithShortcutAndReluInALayer) {
  const BatchInputs of = batch_inputs(torch::kFloat32, torch::MemoryFormat::ChannelsLast);
  const Passed wanted = go_through(new_block(), of.input, of.seed, nullptr, false);
  std::vector<torch::Tensor> outputs, d_inputs;
  auto d_weight = torch::zeros({3});
  for (const Passed& found : pass_slices(of, false)) {
    outputs.push_back(found.output);
    d_inputs.push_back(found.d_input);
    d_weight += found.d_weight;
    ASSERT_EQ(found.statistics.size(), 2u);
    EXPECT_EQ(found.statistics[0].scalar_type(), torch::kFloat32);
    expect_near(found.statistics[0], wanted.statistics[0].to(torch::kFloat64), 2e-6, "mean");
    expect_near(found.statistics[1], wanted.statistics[1].to(torch::kFloat64), 2e-6, "variance");
  }
  expect_near(torch::cat(outputs), wanted.output.to(torch::kFloat64), 5e-6, "output");
  expect_near(torch::cat(d_inputs), wanted.d_input.to(torch::kFloat64), 5e-6, "d input");
  expect_near(d_weight, wanted.d_weight.to(torch::kFloat64), 5e-6, "d weight");
}

// Slices meet once more, in backward, and come to the same.
TEST(SyncBatchNorm, RecomputedHasTheSameBits) {
  const BatchInputs of = batch_inputs(torch::kFloat32, torch::MemoryFormat::ChannelsLast);
  const auto once = pass_slices(of, false), twice = pass_slices(of, true);
  for (std::size_t s = 0; s < once.size(); ++s) {
    EXPECT_TRUE(twice[s].output.equal(once[s].output)) << s;
    EXPECT_TRUE(twice[s].d_input.equal(once[s].d_input)) << s;
    EXPECT_TRUE(twice[s].d_weight.equal(once[s].d_weight)) << s;
    EXPECT_EQ(twice[s].statistics.size(), 2u) << "reported again";
  }
}

TEST(SyncBatchNorm, EvaluationMeetsNobody) {
  const auto block = new_block();
  Table table(2);
  const Table::Seat alone(table, 0);
  PassContext context{.training = false, .random = RandomStream(1, "test"), .batch = &alone};
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(block->forward(torch::ones({2, 3, 2, 2}), context).defined());
  EXPECT_EQ(alone.meetings(), 0);
}

}  // namespace
}  // namespace muster::models
