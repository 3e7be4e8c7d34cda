#include "muster/train/state_transfer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "muster/comm/backend/loopback/loopback.h"
#include "muster/models/create.h"
#include "muster/parallel/data_parallel.h"

namespace muster::train {
namespace {

constexpr Duration kAmple = std::chrono::seconds(60);

std::unique_ptr<parallel::Strategy> make_strategy(std::uint64_t seed) {
  auto model = models::create_model(models::MlpSpec{.inputs = 5, .hidden = {3}}).value();
  model->initialize(seed);
  std::vector<optim::OptimizedParameter> parameters;
  for (const models::Parameter& p : model->parameters())
    parameters.push_back({p.name, p.tensor, p.decays});
  auto optimizer = optim::create_optimizer(optim::SgdSpec{}, parameters).value();
  return std::make_unique<parallel::DataParallel>(std::move(model), std::move(optimizer),
                                                  parallel::SliceOptions{.virtual_workers = 2},
                                                  system_clock());
}

// Rank 0 has the state, the others take it.
struct Side {
  Side(std::shared_ptr<comm::Communicator> communicator, std::uint64_t seed)
      : strategy(make_strategy(seed)),
        transfer(std::move(communicator), 1, *strategy, {.timeout = kAmple, .label = "state"},
                 system_clock()) {}
  std::unique_ptr<parallel::Strategy> strategy;
  StateTransfer transfer;
};

struct Sides {
  std::vector<std::shared_ptr<comm::Communicator>> ranks = comm::create_loopback(3);
  Side giver{ranks[0], 1};
  Side first{ranks[1], 2};
  Side second{ranks[2], 3};
};

TEST(StateTransfer, IsOverWhenAllTakersHaveCaughtUp) {
  Sides sides;
  for (Side* taker : {&sides.first, &sides.second}) {
    ASSERT_TRUE(taker->transfer.wait(kAmple));
    EXPECT_FALSE(sides.giver.transfer.done().value());
    ASSERT_TRUE(taker->transfer.tell_caught_up());
  }
  EXPECT_TRUE(sides.giver.transfer.wait(kAmple));
  const auto given = sides.giver.strategy->model_state();
  for (Side* taker : {&sides.first, &sides.second}) {
    const auto taken = taker->strategy->model_state();
    for (std::size_t at = 0; at < given.size(); ++at)
      EXPECT_TRUE(std::ranges::equal(taken[at].tensor.bytes, given[at].tensor.bytes));
  }
}

// Its thread that takes the state works, and so does its heart.
TEST(StateTransfer, WhoHasTheStateAndDoesNotCatchUpIsNamed) {
  Sides sides;
  ASSERT_TRUE(sides.first.transfer.wait(kAmple));
  ASSERT_TRUE(sides.first.transfer.tell_caught_up());
  const Status waited = sides.giver.transfer.wait(std::chrono::milliseconds(20));
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code, ErrorCode::kTimeout);
  EXPECT_EQ(waited.error().peer, Rank{2});
  EXPECT_NE(waited.error().message.find("rank 2 has got the state and did not catch up"),
            std::string::npos)
      << waited.error().message;
}

}  // namespace
}  // namespace muster::train
