// Where ranks hold parts of tensors, the rates that follow from norms are those of the whole ones.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "muster/optim/optimizer.h"
#include "muster/parallel/sharded_optimizer.h"
#include "muster/parallel/testing/on_ranks.h"
#include "muster/parallel/together.h"

namespace muster::parallel {
namespace {

using models::Split;

constexpr int kUpdates = 3;
constexpr double kRoundingOfRates = 1e-6;  // in f32; norms are summed in double

// From `first` to `last` in size, so that each part has another norm.
at::Tensor sloping(at::IntArrayRef sizes, double first, double last) {
  const std::int64_t count = c10::multiply_integers(sizes);
  return (torch::linspace(first, last, count) * torch::cos(torch::arange(count))).view(sizes);
}

models::Parameter whole_parameter(std::string name, Split split, at::Tensor tensor) {
  models::Parameter parameter;
  parameter.name = std::move(name);
  parameter.tensor = std::move(tensor);
  parameter.partition = {.tensor = parameter.name, .split = split};
  return parameter;
}

// Of `half_zero` the first part has no norm, of `zero` nobody has: there the ratio is 1.
std::vector<models::Parameter> whole_parameters() {
  at::Tensor half_zero = sloping({12, 50}, 0.5, 2);
  half_zero.narrow(0, 0, 6).zero_();
  return {whole_parameter("column", Split::kColumn, sloping({37, 130}, 0.1, 2)),
          whole_parameter("row", Split::kRow, sloping({24, 53}, 3, 0.2)),
          whole_parameter("bias", Split::kColumn, sloping({37}, 0.1, 5)),
          whole_parameter("half_zero", Split::kColumn, half_zero),
          whole_parameter("zero", Split::kRow, torch::zeros({4, 6})),
          whole_parameter("norm", Split::kNone, sloping({24}, 1, 2))};
}

std::vector<models::Parameter> parts_for_rank(std::vector<models::Parameter> parameters,
                                              models::TensorShare share) {
  for (models::Parameter& parameter : parameters) {
    const auto sizes = parameter.tensor.sizes();
    parameter.cut = models::cut_of(parameter.partition, {sizes.data(), sizes.size()}, share);
    parameter.tensor = part_of(parameter.tensor, parameter.cut).clone();
  }
  return parameters;
}

// Updates what it has of parameters, in place, from gradients of the whole ones.
class UpdateOfParts {
 public:
  UpdateOfParts(std::vector<models::Parameter> parameters, const optim::OptimizerSpec& spec)
      : optimizer_(ShardedOptimizer::create(
                       std::move(parameters),
                       [spec](std::vector<optim::OptimizedParameter> of) {
                         return optim::create_optimizer(spec, std::move(of), {.decay = 0.5});
                       },
                       at_once)
                       .value()) {
    for (const models::Parameter& parameter : optimizer_->parameters())
      sums_.emplace_back(static_cast<std::size_t>(parameter.tensor.numel()));
    optimizer_->lay_over([this](const ShardPiece& piece) {
      return std::span(sums_[optimizer_->parameter_of(piece)]);
    });
  }

  void update(int number) {
    const std::vector<models::Parameter> wholes = whole_parameters();
    for (std::size_t p = 0; p < wholes.size(); ++p) {
      const at::Tensor whole = sloping(wholes[p].tensor.sizes(), 4.0 / number, 0.1);
      const at::Tensor part = part_of(whole, optimizer_->parameters()[p].cut).contiguous();
      const auto* const first = part.const_data_ptr<float>();
      std::copy(first, first + part.numel(), sums_[p].begin());
    }
    const Status updated = optimizer_->update(/*learning_rate=*/0.1, /*divisor=*/2);
    EXPECT_TRUE(updated) << (updated ? "" : updated.error().message);
  }

  ShardedOptimizer& optimizer() { return *optimizer_; }

 private:
  static Status at_once(std::size_t count,
                        const std::function<void(std::size_t, std::size_t)>& body) {
    body(0, count);
    return ok();
  }

  std::vector<std::vector<float>> sums_;  // by parameter
  const std::unique_ptr<ShardedOptimizer> optimizer_;
};

struct NormCase {
  std::string name;
  optim::OptimizerSpec optimizer;
  std::int32_t ranks = 2;
};
void PrintTo(const NormCase& one, std::ostream* out) { *out << one.name; }

MeshPlace place_of_parts(const comm::Group& group) {
  layout::MeshExtents extents;
  extents[layout::Axis::kTensor] = group.size;
  return {layout::Mesh::create(extents, group.size).value(), group};
}

class CutNorms : public ::testing::TestWithParam<NormCase> {};

TEST_P(CutNorms, MoveEachPartAsTheWholeMoves) {
  UpdateOfParts whole(whole_parameters(), GetParam().optimizer);
  for (int number = 1; number <= kUpdates; ++number) whole.update(number);
  on_ranks(GetParam().ranks, [&](const std::shared_ptr<comm::Communicator>& communicator) {
    const MeshPlace place = place_of_parts(communicator->group());
    const Together together(place, {});
    ASSERT_TRUE(together.connect(*communicator));
    UpdateOfParts part(parts_for_rank(whole_parameters(), together.parts()), GetParam().optimizer);
    together.complete_norms(part.optimizer());
    for (int number = 1; number <= kUpdates; ++number) part.update(number);
    const auto& wholes = whole.optimizer().parameters();
    const auto& parts = part.optimizer().parameters();
    for (std::size_t p = 0; p < parts.size(); ++p) {
      expect_close(parts[p].tensor, part_of(wholes[p].tensor, parts[p].cut), kRoundingOfRates,
                   parts[p].name);
      expect_close(part.optimizer().average()[p],
                   part_of(whole.optimizer().average()[p], parts[p].cut), kRoundingOfRates,
                   "the average of " + parts[p].name);
    }
  });
}

constexpr optim::LambSpec kLamb{.weight_decay = 0.1};
constexpr optim::LarsSpec kLars{.weight_decay = 0.1, .trust_coefficient = 0.5};

INSTANTIATE_TEST_SUITE_P(Of, CutNorms,
                         ::testing::Values(NormCase{"lamb_2", kLamb, 2},
                                           NormCase{"lamb_3", kLamb, 3},
                                           NormCase{"lars_2", kLars, 2},
                                           NormCase{"lars_3", kLars, 3}),
                         [](const auto& which) { return which.param.name; });

TEST(WholeSums, CountWhatIsNotCutOnce) {
  const auto parameters = parts_for_rank(whole_parameters(), {0, 3});
  ASSERT_EQ(parameters.size(), 6U);
  const std::vector<std::vector<double>> by_part{
      {-1, 1, 2, 3, 4, 5, 6}, {-1, 10, 20, 30, 40, 50, 60}, {-1, 100, 200, 300, 400, 500, 600}};
  EXPECT_EQ(Together::whole_sums(parameters, by_part, 1),
            (std::vector<double>{111, 222, 333, 444, 555, 6}));
}

}  // namespace
}  // namespace muster::parallel
