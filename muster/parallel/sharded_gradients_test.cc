// What gradients in shards take: ZeRO stage 2.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "muster/parallel/testing/sharded_training.h"

namespace muster::parallel::shards {
namespace {

struct GradientFigures {
  std::uint64_t formula = 0;
  std::uint64_t optimizer = 0, optimizer_formula = 0;
  Sharded::GradientMemory measured;
  std::uint64_t sent = 0;
};

std::vector<GradientFigures> gradient_figures_of(const Recipe& recipe, std::int32_t size,
                                                 const SliceOptions& options) {
  const auto communicators = comm::create_loopback(size);
  std::vector<GradientFigures> figures(static_cast<std::size_t>(size));
  std::vector<std::jthread> ranks;
  for (std::size_t r = 0; r < figures.size(); ++r)
    ranks.emplace_back([&, r] {
      const auto strategy = sharded_of(recipe, options);
      const comm::LeafOwners owners = owners_for(*strategy, size);
      GradientFigures& found = figures[r];
      found.formula = strategy->gradient_bytes(size);
      found.optimizer_formula = strategy->optimizer_bytes(size);
      EXPECT_TRUE(strategy->enter(communicators[r], owners));
      const Rank rank{static_cast<std::int32_t>(r)};
      for (std::int64_t step = 1; step <= 3; ++step)
        found.sent = one_step(*strategy, slices_of(owners, rank), step).bytes_reduced;
      found.measured = strategy->measured_gradients();
      for (const StateSlice& slice : strategy->optimizer_state())
        found.optimizer += slice.tensor.bytes.size();
    });
  ranks.clear();
  return figures;
}

// Many small layers, so that a few buckets are little of the whole.
TEST(ShardedGradients, HoldAndSendWhatTheFormulaeSay) {
  const std::vector<std::int64_t> hidden(400, 32);
  const Recipe recipe{models::MlpSpec{.inputs = kImage * kImage, .hidden = hidden},
                      optim::SgdSpec{}};
  SliceOptions options = in_stage(2, options_of(1));
  options.bucket_sizes = {1 << 12, 1 << 12};
  const std::uint64_t whole = sharded_of(recipe, options)->gradient_bytes(1) / 3;
  const auto near = [](std::uint64_t found, std::uint64_t expected, std::uint64_t more = 0) {
    EXPECT_GE(found, expected * 98 / 100);
    EXPECT_LE(found, expected * 102 / 100 + more);
  };
  for (const std::int32_t size : {2, 4, 5}) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, fmt::format("{} ranks", size));
    const auto ranks = static_cast<std::uint64_t>(size);
    const std::uint64_t bucket = 1 << 13;  // the largest
    std::uint64_t sent = 0;
    for (const GradientFigures& rank : gradient_figures_of(recipe, size, options)) {
      near(rank.measured.sums, rank.formula, 2 * ranks * bucket);  // two buckets of everybody
      near(rank.optimizer, rank.optimizer_formula);
      EXPECT_LE(rank.measured.window, (4 + ranks) * bucket);
      sent += rank.sent;
    }
    near(sent, (kSlices + ranks) * (ranks - 1) * whole / ranks);
  }
}

}  // namespace
}  // namespace muster::parallel::shards
