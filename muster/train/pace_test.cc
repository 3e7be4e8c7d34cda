#include "muster/train/pace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <thread>

#include "muster/comm/backend/loopback/loopback.h"
#include "muster/train/testing/paces.h"

namespace muster::train {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;

// The best of all ways to share slices out, tried one by one.
double best_of_all(std::int32_t slices, const std::vector<Pace>& paces, std::size_t rank,
                   std::vector<std::int32_t>& counts) {
  if (rank + 1 == paces.size()) {
    counts[rank] = slices;
    return counts[0] == 0 ? 1e9 : computing_seconds(counts, paces);
  }
  double best = 1e9;
  for (counts[rank] = 0; counts[rank] <= slices; ++counts[rank]) {
    const std::int32_t mine = counts[rank];
    best = std::min(best, best_of_all(slices - mine, paces, rank + 1, counts));
    counts[rank] = mine;
  }
  return best;
}

TEST(ShareByPace, NoOtherWayIsSooner) {
  const std::vector<std::vector<double>> machines = {
      {1, 1, 1, 1}, {1, 1, 1, 2}, {4, 1, 1, 1}, {1, 10, 1, 1}, {10, 1, 1, 1},
      {1, 2, 3, 4}, {0.3, 1},     {1},          {7, 7, 1},     {1, 1.4, 1.9, 2.5}};
  for (const auto& seconds : machines) {
    for (const std::int32_t lanes : {1, 2, 3}) {
      for (const std::int32_t slices : {1, 2, 5, 8, 13}) {
        const auto paces = paces_of(seconds, lanes);
        const auto counts = share_by_pace(slices, paces, 100);
        std::vector<std::int32_t> tried(paces.size());
        EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0), slices);
        EXPECT_DOUBLE_EQ(computing_seconds(counts, paces), best_of_all(slices, paces, 0, tried))
            << ::testing::PrintToString(seconds) << " lanes " << lanes << " slices " << slices;
      }
    }
  }
}

TEST(ShareByPace, EqualWorkersShareEvenlyTheLargerFirst) {
  EXPECT_THAT(share_by_pace(10, paces_of({1, 1, 1, 1}), 4), ElementsAre(3, 3, 2, 2));
}

TEST(ShareByPace, StandbysGetNothing) {
  EXPECT_THAT(share_by_pace(8, paces_of({1, 1, 1, 1}), 2), ElementsAre(4, 4, 0, 0));
}

TEST(ShareByPace, WhoIsNotKnownCountsAsTheMedian) {
  EXPECT_THAT(share_by_pace(9, paces_of({2, 0, 2}), 3), ElementsAre(3, 3, 3));
  EXPECT_THAT(share_by_pace(4, paces_of({0, 0}), 2), ElementsAre(2, 2));
}

TEST(ShareByPace, TheFirstRankKeepsASliceHoweverSlow) {
  EXPECT_THAT(share_by_pace(4, paces_of({100, 1, 1}), 3), ElementsAre(1, 2, 1));
}

double best_share(std::int32_t slices, const std::vector<Pace>& paces, std::int32_t active = 100) {
  return share_reached(share_by_pace(slices, paces, active), paces, active);
}

TEST(ShareReached, OneOfFourThatIsTwiceAsSlowNeedsManySlices) {
  const auto paces = paces_of({1, 1, 1, 2});
  EXPECT_NEAR(best_share(8, paces), 0.762, 0.0005);  // 3-2-2-1
  EXPECT_NEAR(best_share(16, paces), 0.914, 0.0005);
  EXPECT_NEAR(best_share(32, paces), 0.914, 0.0005);
  EXPECT_NEAR(best_share(64, paces), 0.962, 0.0005);
  EXPECT_NEAR(best_share(7, paces), 1, 1e-9) << "2-2-2-1 has all done at once";
  EXPECT_NEAR(share_reached({2, 2, 2, 2}, paces, 4), 0.571, 0.0005) << "all wait for the slow one";
}

TEST(ShareReached, IsAllOfEqualWorkersWithAsManySlices) {
  EXPECT_NEAR(best_share(8, paces_of({3, 3, 3, 3})), 1, 1e-9);
  EXPECT_NEAR(best_share(10, paces_of({1, 1, 1, 1})), 10 / 12.0, 1e-9);  // 3-3-2-2
  EXPECT_NEAR(best_share(5, paces_of({7})), 1, 1e-9);
}

TEST(ShareReached, LanesWithoutASliceStandStill) {
  EXPECT_NEAR(best_share(8, paces_of({1, 1}, 8)), 0.5, 1e-9);
  EXPECT_NEAR(best_share(16, paces_of({1, 1}, 8)), 1, 1e-9);
  EXPECT_NEAR(best_share(32, paces_of({1, 2}, 8)), 0.889, 0.0005);  // 24-8
}

TEST(ShareReached, StandbysAndWhoIsNotKnownCountAsWhereSlicesAreSharedOut) {
  EXPECT_NEAR(best_share(8, paces_of({1, 1, 1, 1}), 2), 1, 1e-9);
  EXPECT_NEAR(best_share(8, paces_of({2, 0, 2, 2})), 1, 1e-9);
  EXPECT_NEAR(best_share(8, paces_of({1, 1, 1, 10})), 8 / 3.0 / 3.1, 1e-9) << "without a slice";
}

TEST(PaceMemory, AWorkerWithoutSlicesIsTriedAgainButSeldom) {
  std::vector<Pace> known = paces_of({1, 1, 1, 10});
  int comparisons = 0;
  while (share_by_pace(8, known, 4)[3] == 0 && comparisons < 10000) {
    std::vector<Pace> now = paces_of({1, 1, 1, 0});
    known = with_memory(std::move(now), known);
    ++comparisons;
  }
  EXPECT_GT(comparisons, 50);
  EXPECT_LT(comparisons, 200);
}

TEST(PaceMeter, TakesMediansAndCountsRoundsOfLanes) {
  PaceMeter meter;
  for (const int computing : {20, 22, 400, 21, 23})  // one hiccup
    meter.add({.slices = 3,
               .computing = milliseconds(computing),
               .input = milliseconds(2),
               .waiting = milliseconds(5),
               .whole = milliseconds(30)});
  const Pace pace = meter.take(7, 2);
  EXPECT_EQ(pace.worker, 7);
  EXPECT_DOUBLE_EQ(pace.slice, 0.011);  // two rounds
  EXPECT_DOUBLE_EQ(pace.input, 0.002);
  EXPECT_DOUBLE_EQ(pace.waiting, 0.005);
  EXPECT_DOUBLE_EQ(pace.step, 0.03);
  EXPECT_EQ(meter.take(7, 2), (Pace{.worker = 7, .lanes = 2}));  // nothing since
}

TEST(Paces, LinksMatterWhereAllWait) {
  EXPECT_FALSE(links_matter({}));
  std::vector<Pace> paces{{.worker = 0, .waiting = 2, .step = 10},
                          {.worker = 1, .waiting = 5, .step = 10}};
  EXPECT_TRUE(links_matter(paces));
  paces[0].waiting = 0.5;  // it computes, and the other one waits for it
  EXPECT_FALSE(links_matter(paces));
}

TEST(Paces, ALinkIsMeasuredWithAnyNumberOfRanks) {
  for (const std::int32_t size : {1, 2, 3, 5}) {
    std::vector<std::jthread> threads;
    std::vector<double> took(static_cast<std::size_t>(size));
    for (const auto& rank : comm::create_loopback(size))
      threads.emplace_back([&took, rank] {
        took[static_cast<std::size_t>(to_int(rank->group().rank))] =
            measure_link(*rank, system_clock(), {}).value();
      });
    threads.clear();
    for (const double each : took) EXPECT_GT(each, 0);
  }
}

TEST(Paces, EveryRankLearnsAll) {
  const auto ranks = comm::create_loopback(3);
  std::vector<std::vector<Pace>> seen(3);
  std::vector<std::jthread> threads;
  for (std::size_t r = 0; r < 3; ++r) {
    threads.emplace_back([&, r] {
      const Pace mine{.worker = static_cast<std::int32_t>(10 + r),
                      .lanes = 2,
                      .slice = 0.5 * static_cast<double>(r),
                      .input = 1,
                      .waiting = 2,
                      .step = 3,
                      .stop = r == 1};
      seen[r] = exchange_paces(*ranks[r], mine, {}).value();
    });
  }
  threads.clear();
  for (const auto& paces : seen) {
    ASSERT_EQ(paces.size(), 3U);
    EXPECT_EQ(paces, seen[0]);
    EXPECT_EQ(paces[1], (Pace{.worker = 11,
                              .lanes = 2,
                              .slice = 0.5,
                              .input = 1,
                              .waiting = 2,
                              .step = 3,
                              .stop = true}));
  }
}

}  // namespace
}  // namespace muster::train
