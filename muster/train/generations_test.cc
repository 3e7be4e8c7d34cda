// The trainer from one generation to the next: when one breaks, and when somebody joins.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "muster/train/testing/town.h"

namespace muster::train {
namespace {

// Whoever lacks the last step of a broken generation copies it; the first rank, which never saw it
// applied, tells of it all the same.
TEST(Recovery, EveryStepIsToldThoughTheFirstRankLacksOne) {
  const std::string expected = undisturbed();
  for (const std::int32_t worker : {0, 1}) {
    Town town(3);
    const auto ends = train(town, 3, {.breaks = Break{worker, 9}});
    for (const auto& [rank, end] : ends) expect_well(end, expected);
    EXPECT_EQ(ends.at(0).steps.size(), static_cast<std::size_t>(kSteps)) << "without " << worker;
  }
}

// Workers 2 and 3 come at step 6, after which the state for them is held up until step 9.
std::map<std::int32_t, End> train_with_newcomers(Faults faults,
                                                 const std::vector<std::int32_t>& newcomers,
                                                 bool spoils = false) {
  Town town(2, 9, spoils);
  faults.join = Join{6, newcomers};
  return train(town, 2, faults);
}

TEST(Joining, NewcomersGetTheStateWhileTheOthersTrain) {
  const std::string expected = undisturbed();
  for (const std::vector<std::int32_t>& newcomers : {std::vector{2}, std::vector{2, 3}}) {
    const auto ends = train_with_newcomers({}, newcomers);
    for (const auto& [worker, end] : ends) expect_well(end, expected);
    EXPECT_NE(ends.at(0).told.find("got the state"), std::string::npos) << ends.at(0).told;
    EXPECT_EQ(ends.at(0).told.find("while 0 steps"), std::string::npos) << ends.at(0).told;
    const Progress& known = ends.at(0).outcome->progress;
    for (const auto& [worker, end] : ends)
      EXPECT_EQ(to_json(end.outcome->progress), to_json(known)) << "worker " << worker;
  }
}

// A state that takes more steps than a newcomer keeps updates of: then the others stand still for
// the rest, and nobody takes anybody for stuck.
TEST(Joining, MayTakeLongerThanNewcomersKeepUpdates) {
  constexpr std::int64_t kLong = 90;
  const std::string expected = alone({.steps = kLong}).hash;
  Town town(2, kLong);
  const auto ends = train(town, 2, {.join = Join{6, {2}}, .steps = kLong});
  for (const auto& [worker, end] : ends) expect_well(end, expected, kLong);
  EXPECT_NE(ends.at(0).told.find("while 64 steps passed"), std::string::npos) << ends.at(0).told;
}

TEST(Joining, KeepsNoEvaluationWaiting) {
  const End expected = alone({.evaluates = true});
  EXPECT_GE(expected.evaluations.size(), 7U) << expected.error;
  Town town(2, 15);
  const auto ends = train(town, 2, {.join = Join{6, {2}}, .evaluates = true});
  for (const auto& [worker, end] : ends) expect_well(end, expected.hash);
  EXPECT_EQ(ends.at(0).evaluations, expected.evaluations);
  const std::string& told = ends.at(0).told;
  const auto passed = told.find("while ");
  ASSERT_NE(passed, std::string::npos) << told;
  EXPECT_GE(std::stoi(told.substr(passed + 6)), 9) << told;
}

// Before an evaluation, while the newcomer still gets the state, or once it has it: what it got
// came of the wrong bits as well.
TEST(Joining, IsNoReasonToKeepWrongBits) {
  for (const bool evaluates : {true, false}) {
    const std::string expected = alone({.evaluates = evaluates}).hash;
    Town town(3, evaluates ? 15 : 9);
    auto ends =
        train(town, 3,
              {.flips = {{.worker = 1, .step = 8}}, .join = Join{6, {3}}, .evaluates = evaluates});
    const std::string& told = ends.at(0).told;
    EXPECT_NE(told.find("worker 1 (a thread) held other weights than the others after step"),
              std::string::npos)
        << told;
    EXPECT_NE(told.find("all go back to step 5"), std::string::npos) << told;
    EXPECT_EQ(town.quarantined, std::multiset<std::int32_t>{1});
    ends.erase(1);
    for (const auto& [worker, end] : ends) expect_well(end, expected);
  }
}

TEST(Joining, StandsTheDeathOfAnyoneMeanwhile) {
  const std::string expected = undisturbed();
  for (const std::int32_t victim : {0, 1, 2, 3}) {
    auto ends = train_with_newcomers({.death = Death{victim, 8}}, {2, 3});
    EXPECT_EQ(ends.at(victim).error, "dead");
    ends.erase(victim);
    for (const auto& [worker, end] : ends) expect_well(end, expected);
  }
}

// Of two nobody knows who is wrong, unless his memory has changed between two updates.
TEST(Joining, IsNoReasonToKeepWrongBitsOfOneOfTwo) {
  for (const bool evaluates : {true, false})
    for (const bool by_update : {true, false})
      for (const std::int64_t step : {5, 6, 8}) {
        const std::string expected = alone({.evaluates = evaluates}).hash;
        Town town(2, evaluates ? 15 : 9);
        auto ends = train(town, 2,
                          {.flips = {{.worker = 1, .step = step, .by_update = by_update}},
                           .join = Join{6, {2}},
                           .evaluates = evaluates});
        SCOPED_TRACE(fmt::format("step {}, by update {}, evaluates {}\n{}", step, by_update,
                                 evaluates, ends.at(0).told));
        EXPECT_EQ(town.quarantined, std::multiset<std::int32_t>{1});
        ends.erase(1);
        for (const auto& [worker, end] : ends) expect_well(end, expected);
      }
}

// Whoever goes may have to soon, though others, or it, are still getting the state.
TEST(Joining, DoesNotHoldUpWhoLeaves) {
  const std::string expected = undisturbed();
  for (const std::int32_t leaver : {0, 1, 2, 3}) {
    Town town(2, kSteps);
    auto ends = train(town, 2, {.farewell = Farewell{leaver, 8}, .join = Join{6, {2, 3}}});
    ASSERT_TRUE(ends.at(leaver).outcome) << ends.at(leaver).error;
    EXPECT_EQ(ends.at(leaver).outcome->ending, Ending::kDismissed);
    EXPECT_LE(ends.at(leaver).outcome->progress.committed, Step{9});
    ends.erase(leaver);
    for (const auto& [worker, end] : ends) expect_well(end, expected);
  }
}

TEST(Joining, BeginsAnewWhereTheGenerationBreaks) {
  const std::string expected = undisturbed();
  for (const std::int32_t worker : {0, 1, 2}) {
    const auto ends = train_with_newcomers({.breaks = Break{worker, 8}}, {2});
    for (const auto& [rank, end] : ends) expect_well(end, expected);
  }
}

TEST(Joining, WhoGotTheStateWrongGoes) {
  const std::string expected = undisturbed();
  auto ends = train_with_newcomers({}, {2}, true);
  EXPECT_NE(ends.at(0).told.find("worker 2 (a thread) held other weights"), std::string::npos);
  ASSERT_TRUE(ends.at(2).outcome) << ends.at(2).error;
  EXPECT_EQ(ends.at(2).outcome->ending, Ending::kDismissed) << ends.at(0).told;
  ends.erase(2);
  for (const auto& [worker, end] : ends) expect_well(end, expected);
}

}  // namespace
}  // namespace muster::train
