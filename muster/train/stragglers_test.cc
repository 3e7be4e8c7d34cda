#include "muster/train/stragglers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/train/testing/paces.h"

namespace muster::train {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Stragglers, AreNamedWithTheirCause) {
  std::vector<Pace> paces = paces_of({0.01, 0.01, 0.041, 0.01});
  paces[1].input = 0.05;
  const auto found = find_stragglers(paces, 1.5);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].worker, 1);
  EXPECT_EQ(found[0].cause, Straggler::Cause::kInput);
  EXPECT_EQ(found[1].worker, 2);
  EXPECT_EQ(found[1].cause, Straggler::Cause::kCompute);
  EXPECT_EQ(describe(found[1]), "computes 4.1 × slower than the others: 41 ms a slice, they 10 ms");
}

TEST(Stragglers, ASlowLinkIsNamedWithBothEnds) {
  std::vector<Pace> paces = paces_of({0.01, 0.01, 0.01});
  for (Pace& pace : paces) pace.link = 0.001;
  paces[0].link = 0.026;
  const auto found = find_stragglers(paces, 1.5);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].worker, 0);
  EXPECT_EQ(describe(found[0], "worker 2"),
            "hears worker 2 over a slow link: 64 KiB take 26 ms, between others 1.0 ms");
  paces[0].link = 0.004;  // too little to tell it from a rank that was not scheduled
  EXPECT_TRUE(find_stragglers(paces, 1.5).empty());
}

TEST(FewSlices, AreToldWithHowManyWouldReachMore) {
  EXPECT_EQ(describe_few_slices(8, paces_of({1, 1, 1, 2}), 4, 128),
            "8 slices reach 76 % of what these workers can; 16 would reach 91 % "
            "(training.virtual_workers, a part of the result)");
  EXPECT_EQ(describe_few_slices(8, paces_of({1, 1, 1, 1}), 3, 128),  // the last one stands by
            "8 slices reach 89 % of what these workers can; 32 would reach 97 % "
            "(training.virtual_workers, a part of the result)");
  EXPECT_EQ(describe_few_slices(4, paces_of({1, 1, 1, 4.1}), 4, 8),  // the batch has no more
            "4 slices reach 62 % of what these workers can; 8 would reach 82 % "
            "(training.virtual_workers, a part of the result)");
}

TEST(FewSlices, AreNoneWhereTheyReachEnoughOrMoreDoNotHelp) {
  EXPECT_EQ(describe_few_slices(16, paces_of({1, 1, 1, 2}), 4, 128), "");
  EXPECT_EQ(describe_few_slices(8, paces_of({1, 1, 1, 1}), 4, 128), "");
  EXPECT_EQ(describe_few_slices(8, paces_of({1, 1, 1, 2}), 4, 15), "") << "the batch has no more";
  EXPECT_EQ(describe_few_slices(8, paces_of({1, 1, 1, 10}), 4, 16), "") << "as much with 16";
}

TEST(Stragglers, NobodyIsOneAmongEquals) {
  EXPECT_TRUE(find_stragglers(paces_of({0.010, 0.012, 0.011}), 1.5).empty());
  EXPECT_TRUE(find_stragglers(paces_of({0.010}), 1.5).empty());
  EXPECT_TRUE(find_stragglers(paces_of({0.010, 0}), 1.5).empty());
}

std::vector<std::int32_t> workers_of(const std::vector<Straggler>& stragglers) {
  std::vector<std::int32_t> workers;
  for (const Straggler& straggler : stragglers) workers.push_back(straggler.worker);
  return workers;
}

TEST(StragglerWatch, TellsOnceOfWhatLastsAndWhenItIsOver) {
  StragglerWatch watch(1.5, 0);
  const auto well = paces_of({1, 1, 1});
  const auto slow = paces_of({1, 3, 1});
  EXPECT_THAT(watch.observe(slow).slow, IsEmpty());  // it may pass
  EXPECT_THAT(watch.observe(well).slow, IsEmpty());
  EXPECT_THAT(watch.observe(slow).slow, IsEmpty());
  EXPECT_THAT(workers_of(watch.observe(slow).slow), ElementsAre(1));
  EXPECT_THAT(watch.observe(slow).slow, IsEmpty());
  EXPECT_THAT(watch.observe(well).recovered, IsEmpty());
  const auto news = watch.observe(well);
  EXPECT_THAT(news.recovered, ElementsAre(1));
  EXPECT_THAT(watch.observe(well).recovered, IsEmpty());
}

TEST(StragglerWatch, NobodyIsSentAwayForALink) {
  StragglerWatch watch(1.5, 3);
  auto paces = paces_of({1, 1, 1});
  for (Pace& pace : paces) pace.link = 0.001;
  paces[1].link = 1;
  for (int i = 0; i < 10; ++i) EXPECT_THAT(watch.observe(paces).to_go, IsEmpty());
}

TEST(StragglerWatch, WhoIsGoneIsForgotten) {
  StragglerWatch watch(1.5, 0);
  watch.observe(paces_of({1, 1, 3}));
  EXPECT_THAT(workers_of(watch.observe(paces_of({1, 1, 3})).slow), ElementsAre(2));
  for (int i = 0; i < 5; ++i) EXPECT_THAT(watch.observe(paces_of({1, 1})).recovered, IsEmpty());
}

TEST(StragglerWatch, AnotherCauseIsAnotherWord) {
  StragglerWatch watch(1.5, 0);
  const auto computes = paces_of({1, 3, 1});
  auto waits = paces_of({1, 1, 1});
  waits[1].input = 5;
  watch.observe(computes);
  EXPECT_THAT(workers_of(watch.observe(computes).slow), ElementsAre(1));
  EXPECT_THAT(watch.observe(waits).slow, IsEmpty());
  const auto news = watch.observe(waits);
  ASSERT_THAT(workers_of(news.slow), ElementsAre(1));
  EXPECT_EQ(news.slow[0].cause, Straggler::Cause::kInput);
}

TEST(StragglerWatch, WhoStaysFarTooSlowIsToGo) {
  StragglerWatch watch(1.5, 4);
  std::vector<std::int32_t> gone;
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(watch.observe(paces_of({1, 3.9, 1})).to_go, IsEmpty());  // not so slow as that
  }
  for (int i = 0; i < 20; ++i) {
    for (const std::int32_t worker : watch.observe(paces_of({1, 4.1, 1})).to_go)
      gone.push_back(worker);
  }
  EXPECT_THAT(gone, ElementsAre(1));
}

TEST(StragglerWatch, WhoHadToStayIsToGoOnceOthersHaveCome) {
  StragglerWatch watch(1.5, 4);
  const auto times_told = [&](const std::vector<Pace>& paces) {
    std::size_t times = 0;
    for (int i = 0; i < 20; ++i) times += watch.observe(paces).to_go.size();
    return times;
  };
  EXPECT_EQ(times_told(paces_of({1, 5, 1})), 1U);
  EXPECT_EQ(times_told(paces_of({1, 5})), 0U) << "one is gone: still less can it go";
  EXPECT_EQ(times_told(paces_of({1, 5, 1})), 1U);
}

}  // namespace
}  // namespace muster::train
