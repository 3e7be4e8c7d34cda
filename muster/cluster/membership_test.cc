#include "muster/cluster/membership.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace muster::cluster {
namespace {

using std::chrono::seconds;
using Workers = std::vector<std::int32_t>;

constexpr TimePoint kNow{seconds(1000)};

enum class Kind { kAbsent, kWell, kSilent, kDisconnected, kLeaving };

MembershipView view_of(const std::vector<Kind>& kinds, Workers current) {
  MembershipView view;
  view.current = std::move(current);
  view.last_join = kNow - seconds(100);
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i] == Kind::kAbsent) continue;
    Candidate candidate;
    candidate.info = {static_cast<std::int32_t>(i), "h", "b", 1, {}};
    candidate.silence.heard(kinds[i] == Kind::kSilent ? kNow - seconds(60) : kNow);
    candidate.connected = kinds[i] != Kind::kDisconnected;
    candidate.leaving = kinds[i] == Kind::kLeaving;
    view.candidates.push_back(candidate);
  }
  return view;
}

// Every state of up to four workers, every present generation among them, every policy.
template <class Check>
void for_all_small_cases(Check check) {
  constexpr int kWorkers = 4;
  const std::vector<Workers> currents{{}, {0}, {1, 0}, {0, 1, 2}, {3, 1}, {2, 0, 3, 1}};
  for (int code = 0; code < 625; ++code) {
    std::vector<Kind> kinds;
    for (int i = 0, rest = code; i < kWorkers; ++i, rest /= 5)
      kinds.push_back(static_cast<Kind>(rest % 5));
    for (const auto& current : currents)
      for (int least = 1; least <= kWorkers; ++least)
        for (int most = least; most <= kWorkers; ++most) {
          MembershipPolicy policy;
          policy.min_workers = least;
          policy.max_workers = most;
          check(kinds, view_of(kinds, current), policy);
        }
  }
}

// What looks at all others for each worker does not come to an end here in the time of a test.
TEST(Membership, DecidesAboutAHundredThousandWorkers) {
  constexpr std::int32_t kMany = 100'000;
  std::vector<Kind> kinds(kMany, Kind::kWell);
  kinds[kMany - 2] = Kind::kDisconnected;
  Workers current(kMany - 1);
  std::iota(current.begin(), current.end(), 0);
  MembershipView view = view_of(kinds, current);
  for (std::int32_t worker = kMany / 2; worker < kMany - 2; ++worker)
    view.replaced.push_back(worker);
  MembershipPolicy policy;
  policy.max_workers = kMany;
  policy.majority = true;
  for (const bool all_are_whole : {false, true}) {
    for (Candidate& candidate : view.candidates)
      candidate.whole = all_are_whole || candidate.info.worker == kMany / 2 - 1;
    const auto decision = decide_membership(kNow, view, policy);
    ASSERT_TRUE(decision.members) << decision.reason;
    EXPECT_EQ(std::ssize(*decision.members), kMany - 1);
    EXPECT_TRUE(decision.reason.ends_with("worker 99998 (h, pid 1) has lost its connection"))
        << decision.reason.substr(0, 200);
  }
}

TEST(Membership, HoldsItsRulesInEverySmallCase) {
  for_all_small_cases([](const auto& kinds, const MembershipView& view, const auto& policy) {
    const auto decision = decide_membership(kNow, view, policy);
    ASSERT_FALSE(decision.reason.empty());
    const auto well = [&](std::int32_t worker) {
      return kinds[static_cast<std::size_t>(worker)] == Kind::kWell;
    };
    const auto alive = static_cast<int>(std::count(kinds.begin(), kinds.end(), Kind::kWell));
    const auto survivors = std::count_if(view.current.begin(), view.current.end(), well);
    const bool all_gone = std::ranges::none_of(view.current, [&](std::int32_t worker) {
      const Kind kind = kinds[static_cast<std::size_t>(worker)];
      return kind == Kind::kWell || kind == Kind::kSilent;  // which is not given up yet
    });
    const bool goes_on = view.current.empty() || survivors > 0 || all_gone;
    ASSERT_EQ(decision.members.has_value(), goes_on && alive >= policy.min_workers);
    if (!decision.members) return;
    const auto& members = *decision.members;
    ASSERT_TRUE(std::all_of(members.begin(), members.end(), well));
    ASSERT_EQ(std::set(members.begin(), members.end()).size(), members.size());
    ASSERT_LE(static_cast<int>(members.size()),
              std::max<int>(policy.max_workers, static_cast<int>(survivors)));
    Workers order;  // survivors first, in their order
    std::copy_if(view.current.begin(), view.current.end(), std::back_inserter(order), well);
    ASSERT_TRUE(std::equal(order.begin(), order.end(), members.begin()));
    ASSERT_TRUE(
        std::is_sorted(members.begin() + static_cast<std::ptrdiff_t>(order.size()), members.end()));
  });
}

TEST(Membership, DoesNotDependOnTheOrderOfCandidates) {
  for_all_small_cases([](const auto&, MembershipView view, const auto& policy) {
    const auto forwards = decide_membership(kNow, view, policy);
    std::reverse(view.candidates.begin(), view.candidates.end());
    ASSERT_EQ(decide_membership(kNow, view, policy).members, forwards.members);
  });
}

TEST(Membership, WaitsForMoreWorkersThenGoesOnWithThoseItHas) {
  MembershipPolicy policy;
  policy.min_workers = 2;
  policy.max_workers = 4;
  auto view = view_of({Kind::kWell, Kind::kWell, Kind::kWell}, {0, 1});
  view.last_join = kNow - policy.settle / 2;
  EXPECT_EQ(decide_membership(kNow, view, policy).members, (Workers{0, 1}));
  EXPECT_EQ(decide_membership(kNow + policy.settle, view, policy).members, (Workers{0, 1, 2}));
}

TEST(Membership, TheFirstRankSeesTheRunFolder) {
  MembershipPolicy policy;
  policy.max_workers = 4;
  auto view = view_of({Kind::kDisconnected, Kind::kWell, Kind::kWell, Kind::kWell}, {0, 1, 2});
  view.candidates[1].info.can_lead = false;
  EXPECT_EQ(decide_membership(kNow, view, policy).members, (Workers{2, 1, 3}));
  view.candidates[2].info.can_lead = false;  // then the newcomer, who gets the state first
  EXPECT_EQ(decide_membership(kNow, view, policy).members, (Workers{3, 1, 2}));
  view.candidates[3].info.can_lead = false;
  const auto decision = decide_membership(kNow, view, policy);
  EXPECT_FALSE(decision.members);
  EXPECT_NE(decision.reason.find("none of 3 workers sees the run's folder"), std::string::npos);
}

TEST(Membership, TheFirstGenerationHasOneWithTheStateToBeginWith) {
  MembershipPolicy policy;
  policy.max_workers = 3;
  auto view = view_of({Kind::kAbsent, Kind::kWell, Kind::kWell}, {});
  for (Candidate& candidate : view.candidates) candidate.info.has_state = false;
  const auto decision = decide_membership(kNow, view, policy);
  EXPECT_FALSE(decision.members);
  EXPECT_NE(decision.reason.find("none of 2 workers has the state"), std::string::npos);
  view = view_of({Kind::kWell, Kind::kWell, Kind::kWell}, {});
  view.candidates[1].info.has_state = view.candidates[2].info.has_state = false;
  EXPECT_EQ(decide_membership(kNow, view, policy).members, (Workers{0, 1, 2}));
}

TEST(Membership, DoesNotWaitAfterALoss) {
  MembershipPolicy policy;
  policy.min_workers = 2;
  policy.max_workers = 3;
  auto view = view_of({Kind::kWell, Kind::kWell, Kind::kDisconnected}, {0, 1, 2});
  view.last_join = kNow;
  EXPECT_EQ(decide_membership(kNow, view, policy).members, (Workers{0, 1}));
}

// Too few were left; then the lost one came again, as a new process.
TEST(Membership, WhoComesAgainIsANewcomerBehindTheSurvivors) {
  MembershipPolicy policy;
  policy.min_workers = policy.max_workers = 2;
  auto view = view_of({Kind::kDisconnected, Kind::kWell}, {0, 1});
  EXPECT_FALSE(decide_membership(kNow, view, policy).members);
  view = view_of({Kind::kWell, Kind::kWell}, {0, 1});
  view.replaced = {0};
  const auto decision = decide_membership(kNow, view, policy);
  EXPECT_EQ(decision.members, (Workers{1, 0}));
  EXPECT_FALSE(decision.planned);
  view = view_of({Kind::kWell, Kind::kWell}, {1, 0});  // in its old place, and yet anew
  view.replaced = {0};
  EXPECT_FALSE(decide_membership(kNow, view, policy).planned);
}

// As the newcomers that they are, they are the next generation, and have no state.
TEST(Membership, WhereAllWereLostThoseThatComeAnewGoOn) {
  MembershipPolicy policy;
  policy.min_workers = policy.max_workers = 2;
  auto view = view_of({Kind::kWell, Kind::kWell}, {1, 0});
  view.replaced = {0, 1};
  const auto decision = decide_membership(kNow, view, policy);
  EXPECT_EQ(decision.members, (Workers{0, 1}));
  EXPECT_FALSE(decision.planned);
  EXPECT_NE(decision.reason.find("2 workers, 0 of them from before"), std::string::npos);
  policy.min_workers = 1;
  view = view_of({Kind::kWell, Kind::kDisconnected}, {1});
  EXPECT_EQ(decide_membership(kNow, view, policy).members, Workers{0});
  view.last_join = kNow;
  EXPECT_FALSE(decide_membership(kNow, view, policy).members) << "another one may be about to come";
}

TEST(Membership, WhoIsToldToGoStaysWhereNobodyElseHasTheState) {
  MembershipPolicy policy;
  policy.max_workers = 2;
  auto view = view_of({Kind::kWell, Kind::kWell}, {0});
  view.candidates[0].draining = true;
  view.candidates[1].reaches = false;
  EXPECT_FALSE(decide_membership(kNow, view, policy).members);
  view = view_of({Kind::kSilent, Kind::kWell}, {0});
  view.last_join = kNow - seconds(100);
  EXPECT_FALSE(decide_membership(kNow, view, policy).members) << "not given up yet";
  view.candidates[0].lost = true;
  EXPECT_EQ(decide_membership(kNow, view, policy).members, Workers{1});
}

// Where each has a part of the state that goes by its rank.
TEST(Membership, WhoComesAgainKeepsTheRankItHad) {
  MembershipPolicy policy;
  policy.min_workers = policy.max_workers = 3;
  policy.keeps_ranks = true;
  auto view = view_of({Kind::kDisconnected, Kind::kWell, Kind::kWell}, {0, 1, 2});
  EXPECT_FALSE(decide_membership(kNow, view, policy).members);
  view = view_of({Kind::kWell, Kind::kWell, Kind::kWell}, {0, 1, 2});
  view.replaced = {0};
  const auto decision = decide_membership(kNow, view, policy);
  EXPECT_EQ(decision.members, (Workers{0, 1, 2}));
  EXPECT_FALSE(decision.planned);
  EXPECT_NE(
      decision.reason.find("3 workers, 2 of them from before: worker 0 (h, pid 1) comes anew"),
      std::string::npos)
      << decision.reason;
  view.replaced = {0, 1, 2};
  EXPECT_EQ(decide_membership(kNow, view, policy).members, (Workers{0, 1, 2}));
}

TEST(Membership, NobodyWithAPartIsDoneWithoutWhateverIsTheLeast) {
  MembershipPolicy policy;
  policy.min_workers = 1;
  policy.max_workers = 4;
  policy.keeps_ranks = true;
  const auto view =
      view_of({Kind::kWell, Kind::kDisconnected, Kind::kWell, Kind::kWell}, {0, 1, 2});
  const auto decision = decide_membership(kNow, view, policy);
  EXPECT_FALSE(decision.members) << "worker 3 has no part";
  EXPECT_NE(decision.reason.find("2 of at least 3 workers are here"), std::string::npos);
}

// Two ranks and up to two standbys; each way in which the holder of a rank may be gone.
struct StandbyCase {
  const char* what;
  std::vector<Kind> kinds;
  Workers current;
  Workers replaced;
  std::optional<Workers> members;
};

const std::vector<StandbyCase> kStandbyCases{
    {"nobody is lost", {Kind::kWell, Kind::kWell, Kind::kWell}, {0, 1}, {}, Workers{0, 1}},
    {"it has died", {Kind::kWell, Kind::kDisconnected, Kind::kWell}, {0, 1}, {}, Workers{0, 2}},
    {"it is silent", {Kind::kWell, Kind::kSilent, Kind::kWell}, {0, 1}, {}, Workers{0, 2}},
    {"the first rank has died",
     {Kind::kDisconnected, Kind::kWell, Kind::kWell},
     {0, 1},
     {},
     Workers{2, 1}},
    {"of two standbys the first",
     {Kind::kWell, Kind::kDisconnected, Kind::kWell, Kind::kWell},
     {0, 1},
     {},
     Workers{0, 2}},
    {"of two standbys one is well",
     {Kind::kWell, Kind::kDisconnected, Kind::kSilent, Kind::kWell},
     {0, 1},
     {},
     Workers{0, 3}},
    {"both have died",
     {Kind::kDisconnected, Kind::kDisconnected, Kind::kWell, Kind::kWell},
     {0, 1},
     {},
     Workers{2, 3}},
    {"one standby for two",
     {Kind::kDisconnected, Kind::kDisconnected, Kind::kWell},
     {0, 1},
     {},
     std::nullopt},
    {"one has come again",
     {Kind::kWell, Kind::kDisconnected, Kind::kWell},
     {0, 1},
     {0},
     Workers{0, 2}},
    {"that had the place of another dies",
     {Kind::kWell, Kind::kWell, Kind::kDisconnected},
     {0, 2},
     {},
     Workers{0, 1}},
    {"no standby is here", {Kind::kWell, Kind::kDisconnected}, {0, 1}, {}, std::nullopt},
    {"at the beginning", {Kind::kWell, Kind::kWell, Kind::kWell}, {}, {}, Workers{0, 1}},
    {"at the beginning without one of those that were to begin",
     {Kind::kWell, Kind::kAbsent, Kind::kWell},
     {},
     {},
     Workers{0, 2}},
};

MembershipPolicy with_standbys(std::int32_t standbys) {
  MembershipPolicy policy;
  policy.min_workers = policy.start_workers = 2;
  policy.max_workers = 2 + standbys;
  policy.keeps_ranks = true;
  policy.standbys = standbys;
  return policy;
}

TEST(Membership, AStandbyTakesTheRankOfOneThatIsLost) {
  for (const StandbyCase& each : kStandbyCases) {
    auto view = view_of(each.kinds, each.current);
    view.replaced = each.replaced;
    const auto decision = decide_membership(kNow, view, with_standbys(2));
    EXPECT_EQ(decision.members, each.members) << each.what << ": " << decision.reason;
    EXPECT_FALSE(decision.planned) << each.what;
  }
}

TEST(Membership, AtTheBeginningTheLastStandByWhoeverComesFirst) {
  MembershipPolicy policy = with_standbys(1);
  policy.start_workers = 3;
  auto view = view_of({Kind::kWell, Kind::kAbsent, Kind::kWell}, {});
  EXPECT_FALSE(decide_membership(kNow, view, policy).members);
  view = view_of({Kind::kWell, Kind::kWell, Kind::kWell}, {});
  EXPECT_EQ(decide_membership(kNow, view, policy).members, (Workers{0, 1}));
}

TEST(Membership, WithoutStandbysNobodyTakesTheRankOfAnother) {
  const auto view = view_of({Kind::kWell, Kind::kDisconnected, Kind::kWell}, {0, 1});
  EXPECT_FALSE(decide_membership(kNow, view, with_standbys(0)).members);
}

TEST(Membership, AStandbyThatDoesNotSeeTheRunFolderIsNotTheFirstRank) {
  auto view = view_of({Kind::kDisconnected, Kind::kDisconnected, Kind::kWell, Kind::kWell}, {0, 1});
  view.candidates[2].info.can_lead = false;
  EXPECT_EQ(decide_membership(kNow, view, with_standbys(2)).members, (Workers{3, 2}));
  view.candidates[3].info.can_lead = false;
  EXPECT_FALSE(decide_membership(kNow, view, with_standbys(2)).members);
}

// As one that is started anew on another host.
TEST(Membership, NobodyIsPutInTheFirstRankOfOneThatDoesNotSeeTheRunFolder) {
  auto view = view_of({Kind::kWell, Kind::kWell}, {0, 1});
  view.replaced = {0};
  view.candidates[0].info.can_lead = false;
  const auto decision = decide_membership(kNow, view, with_standbys(0));
  EXPECT_FALSE(decision.members) << "each has a part of the state, by its rank";
  EXPECT_NE(decision.reason.find("worker 0, the first rank, does not see the run's folder"),
            std::string::npos)
      << decision.reason;
  view = view_of({Kind::kWell, Kind::kWell, Kind::kWell}, {0, 1});
  view.replaced = {0};
  view.candidates[0].info.can_lead = false;
  EXPECT_EQ(decide_membership(kNow, view, with_standbys(1)).members, (Workers{2, 1}));
}

// Its part of the state would go with it.
TEST(Membership, NoStandbyTakesTheRankOfOneThatIsToldToGo) {
  auto view = view_of({Kind::kWell, Kind::kWell, Kind::kWell}, {0, 1});
  view.candidates[1].draining = true;
  EXPECT_FALSE(decide_membership(kNow, view, with_standbys(1)).members);
  view.candidates[1].connected = false;
  EXPECT_EQ(decide_membership(kNow, view, with_standbys(1)).members, (Workers{0, 2}));
  view.candidates[1].connected = true;
  view.candidates[2].draining = true;  // a standby that is told to go is none any more
  view.candidates[1].lost = true;
  EXPECT_FALSE(decide_membership(kNow, view, with_standbys(1)).members);
}

TEST(Membership, NamesTheLost) {
  MembershipPolicy policy;
  policy.min_workers = policy.max_workers = 3;
  const auto view = view_of({Kind::kWell, Kind::kSilent, Kind::kWell}, {0, 1, 2});
  const auto decision = decide_membership(kNow, view, policy);
  EXPECT_FALSE(decision.members);
  EXPECT_NE(decision.reason.find("worker 1 (h, pid 1) has been silent for 60.0 s"),
            std::string::npos)
      << decision.reason;
}

// Nobody starts one of another host anew: a hiccup of it must not be a loss.
TEST(Patience, IsLearntOfThoseWhomTheJobCanLoseAlone) {
  MembershipPolicy policy;
  policy.learns = true;
  policy.irreplaceable_from = 1;
  Candidate candidate;
  for (int beat = 0; beat < 100; ++beat)
    candidate.silence.heard(TimePoint(std::chrono::milliseconds(200 * beat)));
  EXPECT_EQ(patience(candidate, policy), std::chrono::seconds(1));
  candidate.info.worker = 1;
  EXPECT_EQ(patience(candidate, policy), policy.heartbeat_timeout);
}

Kind well_if(bool well) { return well ? Kind::kWell : Kind::kDisconnected; }

TEST(Membership, AMinorityOfTheGenerationBeforeDoesNotGoOn) {
  MembershipPolicy policy;
  policy.max_workers = 5;
  for (const bool majority : {false, true}) {
    policy.majority = majority;
    for (int left = 1; left <= 4; ++left) {
      std::vector<Kind> kinds;
      for (int worker = 0; worker < 4; ++worker) kinds.push_back(well_if(worker < left));
      const auto decision = decide_membership(kNow, view_of(kinds, {0, 1, 2, 3}), policy);
      EXPECT_EQ(decision.members.has_value(), !majority || left > 2) << left;
    }
  }
  const std::vector<Kind> one_new{Kind::kWell, Kind::kWell, Kind::kDisconnected,
                                  Kind::kDisconnected, Kind::kWell};
  const auto decision = decide_membership(kNow, view_of(one_new, {0, 1, 2, 3}), policy);
  EXPECT_FALSE(decision.members) << "a newcomer is none of them";
  EXPECT_NE(decision.reason.find("no majority of the 4 members is here (workers.majority)"),
            std::string::npos)
      << decision.reason;
}

TEST(Membership, OfAMajorityAreAlsoWhoComesAgainAndWhoGoesAsItWasTold) {
  MembershipPolicy policy;
  policy.max_workers = 4;
  policy.majority = true;
  const std::vector<Kind> all_well(4, Kind::kWell);
  auto view = view_of(all_well, {0, 1, 2, 3});
  for (Candidate& candidate : view.candidates) candidate.whole = true;
  view.replaced = {2, 3};
  EXPECT_EQ(decide_membership(kNow, view, policy).members, (Workers{0, 1, 2, 3}));
  view.replaced.clear();
  for (const std::size_t worker : {1U, 2U, 3U}) view.candidates[worker].draining = true;
  EXPECT_EQ(decide_membership(kNow, view, policy).members, Workers{0});
}

}  // namespace
}  // namespace muster::cluster
