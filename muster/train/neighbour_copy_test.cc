#include "muster/train/neighbour_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <thread>

#include "muster/comm/backend/loopback/loopback.h"
#include "muster/train/testing/still.h"

namespace muster::train {
namespace {

constexpr Duration kEnough = std::chrono::seconds(60);
constexpr std::size_t kShared = 5;

// Numbers that all hold, and others of which each rank has another count.
class Numbers final : public Still {
 public:
  explicit Numbers(std::size_t own, float first = 0) : shared_(kShared), own_(own) {
    std::iota(shared_.begin(), shared_.end(), first);
    std::iota(own_.begin(), own_.end(), first + static_cast<float>(own));
  }
  std::vector<parallel::StateSlice> model_state() override { return {slice("shared", shared_)}; }
  std::vector<parallel::StateSlice> optimizer_state() override { return {slice("own", own_)}; }
  std::vector<parallel::StateSlice> replicated_state() override { return model_state(); }
  std::vector<float>& own() { return own_; }
  const std::vector<float>& shared() const { return shared_; }

 private:
  static parallel::StateSlice slice(const std::string& name, std::vector<float>& numbers) {
    const TensorView view = view_of(std::span(numbers));
    return {name, view, view.shape, Shape(view.shape.size(), 0)};
  }
  std::vector<float> shared_, own_;
};

struct Member {
  std::shared_ptr<comm::Communicator> communicator;
  std::unique_ptr<Numbers> strategy;
  NeighbourCopy copy{system_clock()};
};

// The second rank's numbers are more than one piece.
std::size_t own_count(std::size_t rank) { return rank == 1 ? 600'000 : 7 + rank; }

class NeighbourCopyTest : public ::testing::Test {
 protected:
  NeighbourCopyTest() {
    for (std::size_t rank = 0; rank < members_.size(); ++rank)
      members_[rank].strategy = std::make_unique<Numbers>(own_count(rank));
    enter();
  }

  void on_all(const std::function<void(Member&)>& body) {
    std::vector<std::jthread> threads;
    for (Member& member : members_) threads.emplace_back([&] { body(member); });
  }

  void enter() {
    const auto communicators = comm::create_loopback(static_cast<std::int32_t>(members_.size()));
    for (std::size_t rank = 0; rank < members_.size(); ++rank)
      members_[rank].communicator = communicators[rank];
    on_all([](Member& member) {
      ASSERT_TRUE(member.copy.enter(member.communicator, *member.strategy,
                                    {.timeout = kEnough, .label = "copy"}));
    });
  }

  void keep(std::int64_t step) {
    on_all([step](Member& member) {
      member.copy.begin(*member.strategy, Step{step});
      member.copy.wait();
      EXPECT_EQ(member.copy.kept(), Step{step});
    });
  }

  std::array<Member, 3> members_;
};

TEST_F(NeighbourCopyTest, WhoComesAnewGetsWhatOnlyItHad) {
  keep(4);
  const std::vector<float> lost = members_[1].strategy->own();
  members_[1].strategy = std::make_unique<Numbers>(own_count(1), -7.0F);
  enter();
  EXPECT_EQ(members_[2].copy.kept(), Step{4}) << "it outlives the generation";
  on_all([this](Member& member) {
    if (&member == &members_[1]) {
      ASSERT_TRUE(NeighbourCopy::take(*member.communicator, *member.strategy,
                                      {.timeout = kEnough, .label = "copy"}));
    } else if (&member == &members_[2]) {
      ASSERT_TRUE(member.copy.give(*member.strategy));
    }
  });
  EXPECT_EQ(members_[1].strategy->own(), lost);
  EXPECT_EQ(members_[1].strategy->shared(), members_[0].strategy->shared());
}

TEST_F(NeighbourCopyTest, WhatIsKeptIsThatOfTheLastStep) {
  keep(4);
  for (float& number : members_[0].strategy->own()) number += 100;
  keep(5);
  const std::vector<float> lost = members_[0].strategy->own();
  std::ranges::fill(members_[0].strategy->own(), 0.0F);
  on_all([this](Member& member) {
    if (&member == &members_[0]) {
      ASSERT_TRUE(NeighbourCopy::take(*member.communicator, *member.strategy,
                                      {.timeout = kEnough, .label = "copy"}));
    } else if (&member == &members_[1]) {
      ASSERT_TRUE(member.copy.give(*member.strategy));
    }
  });
  EXPECT_EQ(members_[0].strategy->own(), lost);
}

// Its neighbour never sends: what was kept before is gone, and nothing has come in its place.
TEST_F(NeighbourCopyTest, ACopyThatBreaksOffIsNone) {
  keep(4);
  members_[2].copy.begin(*members_[2].strategy, Step{5});
  members_[2].communicator->abort(fail(ErrorCode::kPeerLost, "rank 1 died"));
  members_[2].copy.wait();
  EXPECT_EQ(members_[2].copy.kept(), std::nullopt);
}

TEST_F(NeighbourCopyTest, TheSameStepIsNotSentAgain) {
  keep(4);
  members_[0].copy.begin(*members_[0].strategy, Step{4});  // alone, and yet nothing is missing
  EXPECT_EQ(members_[0].copy.kept(), Step{4});
}

}  // namespace
}  // namespace muster::train
