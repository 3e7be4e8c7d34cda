#include "muster/models/routing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "muster/base/check.h"

namespace muster::models {
namespace {

using testing::ElementsAre;

TEST(Routing, TakesTheHighestScoresAndOfEqualOnesTheFirst) {
  const std::vector<double> scores{1, 3, 2, 3,   // experts 1 and 3 alike: 1, then 3
                                   0, 0, 0, 0,   // all alike: 0, then 1
                                   5, 1, 9, 9};  // 2, then 3
  const Routing routing = route(scores, {.experts = 4, .per_token = 2});
  EXPECT_THAT(routing.chosen, ElementsAre(1, 3, 0, 1, 2, 3));
  EXPECT_THAT(routing.wanted, ElementsAre(1, 2, 1, 2));
  EXPECT_THAT(routing.rows, ElementsAre(1, 2, 1, 2));
  EXPECT_THAT(routing.order, ElementsAre(2, 0, 3, 4, 1, 5)) << "first choices before second ones";
}

TEST(Routing, CapacityDropsSecondChoicesThenLaterTokens) {
  const std::vector<double> scores{2, 1, 0,   // 0, 1
                                   1, 2, 0,   // 1, 0
                                   1, 2, 0,   // 1, 0
                                   1, 0, 2};  // 2, 0
  const RoutingOptions options{.experts = 3, .per_token = 2, .capacity = 2};
  const Routing routing = route(scores, options);
  EXPECT_THAT(routing.wanted, ElementsAre(4, 3, 1));
  EXPECT_THAT(routing.rows, ElementsAre(2, 2, 1));
  // Expert 0: token 0's first choice, token 1's second; expert 1: first choices of tokens 1 and 2.
  EXPECT_THAT(routing.order, ElementsAre(0, 3, 2, 4, 6));
}

TEST(Routing, CapacityIsAShareOfAnEvenLoad) {
  const RoutingOptions options{.experts = 8, .per_token = 2};
  EXPECT_EQ(expert_capacity(1, 512, options), 128);
  EXPECT_EQ(expert_capacity(1.25, 512, options), 160);
  EXPECT_EQ(expert_capacity(1, 13, options), 4) << "13 · 2 / 8 rounded up";
  EXPECT_EQ(expert_capacity(0.01, 13, options), 1);
}

TEST(Routing, AnswersWhatIsNoNumber) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Routing routing =
      route(std::vector<double>{nan, nan, nan, nan, 1, 2}, {.experts = 3, .per_token = 2});
  EXPECT_THAT(routing.chosen, ElementsAre(0, 1, 0, 2));
  EXPECT_THROW(route({}, {.experts = 2, .per_token = 3}), LogicFault);
}

// Whatever the scores: distinct experts, none better left out, every row where it belongs.
RC_GTEST_PROP(Routing, IsWhole, ()) {
  const auto experts = *rc::gen::inRange<std::int64_t>(1, 9);
  const auto per_token = *rc::gen::inRange<std::int64_t>(1, experts + 1);
  const auto tokens = *rc::gen::inRange<std::int64_t>(0, 20);
  const auto steps = *rc::gen::container<std::vector<int>>(
      static_cast<std::size_t>(tokens * experts), rc::gen::inRange(0, 4));  // many ties
  const std::vector<double> scores(steps.begin(), steps.end());
  RoutingOptions options{.experts = experts, .per_token = per_token};
  if (*rc::gen::arbitrary<bool>()) options.capacity = *rc::gen::inRange<std::int64_t>(1, 6);
  const Routing routing = route(scores, options);

  RC_ASSERT(std::ssize(routing.chosen) == tokens * per_token);
  for (std::int64_t token = 0; token < tokens; ++token) {
    const auto first = routing.chosen.begin() + token * per_token;
    const std::set<std::int64_t> taken(first, first + per_token);
    RC_ASSERT(std::ssize(taken) == per_token);
    const auto score = [&](std::int64_t expert) { return scores[token * experts + expert]; };
    const std::int64_t last = first[per_token - 1];
    for (std::int64_t e = 0; e < experts; ++e)
      if (!taken.contains(e))
        RC_ASSERT(score(e) < score(last) || (score(e) == score(last) && e > last));
  }
  std::int64_t row = 0;
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    RC_ASSERT(routing.rows[expert] ==
              std::min(routing.wanted[expert], options.capacity.value_or(routing.wanted[expert])));
    for (std::int64_t i = 0; i < routing.rows[expert]; ++i)
      RC_ASSERT(routing.chosen[routing.order[row++]] == expert);
  }
  RC_ASSERT(row == std::ssize(routing.order));
  RC_ASSERT(std::accumulate(routing.wanted.begin(), routing.wanted.end(), std::int64_t{0}) ==
            tokens * per_token);
  const std::set<std::int64_t> once(routing.order.begin(), routing.order.end());
  RC_ASSERT(once.size() == routing.order.size());
}

}  // namespace
}  // namespace muster::models
