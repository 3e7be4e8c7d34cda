// Attention over sequences of which each rank has some positions against that of one process, in
// f64: what comes out, and the gradients of queries, keys and values.
#include "muster/models/context_attention.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "muster/comm/wrap/wrappers.h"
#include "muster/models/positions.h"
#include "muster/models/testing/gradient_check.h"
#include "muster/parallel/context/context_ranks.h"
#include "muster/parallel/testing/on_ranks.h"

namespace muster::parallel {
namespace {

using models::AttentionHeads;
using Way = models::ContextAttention;

constexpr double kAttentionRounding = 1e-12;

void on_context_ranks(std::int32_t size, Way way,
                      const std::function<void(const ContextRanks&)>& body) {
  on_ranks(size, [&](const std::shared_ptr<comm::Communicator>& communicator) {
    at::set_num_threads(1);
    ContextRanks ranks({to_int(communicator->group().rank), size}, way, {});
    ranks.use(communicator);
    body(ranks);
  });
}

class ContextAttentionIn : public testing::TestWithParam<std::tuple<Way, int, int>> {};

TEST_P(ContextAttentionIn, IsThatOfOneProcess) {
  const auto [way, size, group_of_heads] = GetParam();
  at::set_num_threads(1);
  const std::int64_t heads = 2 * size * group_of_heads, positions = 6 * size, width = 5;
  const auto make = [&](std::int64_t count, double phase) {
    return models::wavy({2, count, positions, width}, phase).mul_(3).requires_grad_();
  };
  const std::vector<at::Tensor> whole{make(heads, 0.1), make(heads / group_of_heads, 0.9),
                                      make(heads / group_of_heads, 1.7)};
  const at::Tensor weights = models::wavy({2, heads, positions, width}, 2.3);
  const at::Tensor expected = at::scaled_dot_product_attention(
      whole[0], whole[1], whole[2], {}, 0.0, true, std::nullopt, group_of_heads > 1);
  const auto gradients = torch::autograd::grad({(expected * weights).sum()}, whole);
  on_context_ranks(size, way, [&](const ContextRanks& ranks) {
    const models::AxisPart here = models::positions_of(positions, &ranks);
    std::vector<at::Tensor> own;
    for (const at::Tensor& tensor : whole)
      own.push_back(models::take(tensor.detach(), 2, here).requires_grad_());
    const AttentionHeads part{own[0], own[1], own[2]};
    const at::Tensor found = models::context_attention(part, ranks);
    expect_close(found.detach(), models::take(expected.detach(), 2, here), kAttentionRounding,
                 "output");
    const auto own_gradients =
        torch::autograd::grad({(found * models::take(weights, 2, here)).sum()}, own);
    const char* names[] = {"query", "key", "value"};
    for (std::size_t i = 0; i < own.size(); ++i)
      expect_close(own_gradients[i], models::take(gradients[i], 2, here), kAttentionRounding,
                   names[i]);
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, ContextAttentionIn,
                         testing::Combine(testing::Values(Way::kUlysses, Way::kRing),
                                          testing::Range(1, 9), testing::Values(1, 2)));

// What leaves a rank, counted where operations are submitted.
std::int64_t bytes_sent(const comm::Op& op, std::int64_t ranks) {
  if (const auto* all = std::get_if<comm::AllToAll>(&op))
    return static_cast<std::int64_t>(all->input.bytes.size()) / ranks * (ranks - 1);
  if (const auto* send = std::get_if<comm::Send>(&op))
    return static_cast<std::int64_t>(send->tensor.bytes.size());
  return 0;
}

TEST(ContextAttention, SendsWhatTheFormulaSays) {
  constexpr std::int64_t kRanks = 4, kBatch = 2, kHeads = 8, kKeys = 4, kHere = 6, kWidth = 5;
  for (const Way way : {Way::kUlysses, Way::kRing}) {
    on_ranks(kRanks, [&](const std::shared_ptr<comm::Communicator>& communicator) {
      at::set_num_threads(1);
      std::int64_t sent = 0;
      ContextRanks ranks({to_int(communicator->group().rank), kRanks}, way, {});
      ranks.use(comm::with_faults(communicator, [&](const comm::Op& op, const comm::OpOptions&) {
        sent += bytes_sent(op, kRanks);
        return std::optional<Error>();
      }));
      const auto part = [](std::int64_t heads) {
        return models::wavy({kBatch, heads, kHere, kWidth}).requires_grad_();
      };
      const AttentionHeads heads{part(kHeads), part(kKeys), part(kKeys)};
      models::context_attention(heads, ranks).sum().backward();
      const std::int64_t row = kBatch * kHere * kWidth * 8;  // of one head
      const std::int64_t formula = way == Way::kRing
                                       ? 3 * (kRanks - 1) * 2 * kKeys * row
                                       : 4 * (kHeads + kKeys) * row / kRanks * (kRanks - 1);
      EXPECT_EQ(sent, formula);
      EXPECT_EQ(ranks.take_bytes(), static_cast<std::uint64_t>(formula));
    });
  }
}

// Pairs of a query and a key in its past or present.
TEST(ContextAttention, HasTheSameWorkOnAllRanksOfARing) {
  for (std::int32_t size = 1; size <= 8; ++size) {
    const std::int64_t positions = 6 * size;
    std::vector<bool> seen(static_cast<std::size_t>(positions));
    std::int64_t all = 0, largest = 0, smallest = positions * positions;
    for (std::int32_t rank = 0; rank < size; ++rank) {
      std::int64_t work = 0;
      for (const Share run : models::zigzag_positions(positions, {rank, size}))
        for (std::int64_t p = run.begin; p < run.end; ++p) {
          seen[static_cast<std::size_t>(p)] = true;
          work += p + 1;
        }
      all += work;
      largest = std::max(largest, work);
      smallest = std::min(smallest, work);
    }
    EXPECT_EQ(largest, smallest) << size;
    EXPECT_EQ(all, positions * (positions + 1) / 2);
    EXPECT_EQ(std::ranges::count(seen, true), positions);
  }
}

}  // namespace
}  // namespace muster::parallel
