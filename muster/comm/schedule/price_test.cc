#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "muster/base/testing/sanitized.h"
#include "muster/comm/cost.h"
#include "muster/comm/schedule/fold.h"

namespace muster::comm {
namespace {

using Kind = Collective::Kind;

constexpr Kind kPricedKinds[] = {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather,
                                 Kind::kBroadcast, Kind::kAllToAll,      Kind::kBarrier};

// Each cost stands out.
constexpr CostTable kPlain{.inside = {1e-6, 1e-10},
                           .between = {50e-6, 1e-9},
                           .per_message = 2e-6,
                           .reduce_per_byte = 3e-10,
                           .copy_per_byte = 1e-10};

Collective floats(Kind kind, std::int64_t count) { return {kind, count, 4}; }

double price_apart(Algorithm algorithm, std::int32_t size, std::int64_t count,
                   Kind kind = Kind::kAllReduce) {
  return price(floats(kind, count), {algorithm}, Topology::apart(size), kPlain);
}

// One message of so many bytes, from when it is begun to when it is taken.
double message_price(double bytes) {
  return 2 * kPlain.per_message + kPlain.between.latency + bytes * kPlain.between.per_byte;
}

TEST(Price, IsThatOfTheFormulas) {
  for (const std::int32_t n : {2, 3, 8, 64, 1000}) {
    const std::int64_t count = 1000 * n;
    const double block = 4000;
    const double adds = block * kPlain.reduce_per_byte;
    const double ring = (n - 1) * (2 * message_price(block) + adds);
    EXPECT_NEAR(price_apart(Algorithm::kRing, n, count), ring, ring * 1e-9) << n;
    const double rounds = std::ceil(std::log2(n));
    const double doubling = 2 * rounds * message_price(0) +
                            (n - 1) * block * 2 * kPlain.between.per_byte + (n - 1) * adds;
    const double wraps = 2 * rounds * 2 * kPlain.per_message;  // some rounds take two messages
    const double meets = kMeeting * (n - 1) * block * 2 * kPlain.between.per_byte;  // at most
    const double found = price_apart(Algorithm::kHalvingDoubling, n, count);
    EXPECT_GE(found, doubling - 1e-9) << n;
    EXPECT_LE(found, doubling + meets + wraps + 1e-9) << n;
    const double gather = (n - 1) * message_price(block) + block * kPlain.copy_per_byte;
    EXPECT_NEAR(price_apart(Algorithm::kRing, n, count, Kind::kAllGather), gather, gather * 1e-9)
        << n;
  }
  const double barrier = 3 * message_price(0);
  EXPECT_NEAR(price_apart(Algorithm::kDirect, 8, 0, Kind::kBarrier), barrier, 1e-12);
}

// n-1 messages come in at once, and the way in is one.
TEST(Price, KnowsThatManyToOneWaitForEachOther) {
  const std::int32_t n = 9;
  const double bytes = 4e6;
  const double direct = price_apart(Algorithm::kDirect, n, 1000000);
  EXPECT_GT(direct, (n - 1) * bytes * kPlain.between.per_byte);
  EXPECT_LT(price_apart(Algorithm::kRing, n, 1000000), direct / 2);
}

// Bytes between hosts that leave one or arrive there, and inside of a host at one of its ranks.
struct Busiest {
  double between = 0;
  double inside = 0;
};
Busiest busiest_links(const Collective& collective, const Method& method,
                      const Topology& topology) {
  std::map<std::tuple<bool, bool, std::int32_t>, double> bytes;  // by link
  for (std::int32_t r = 0; r < topology.size(); ++r)
    for (const ScheduleStep& step : make_schedule(collective, method, Rank{r}, topology).steps) {
      if (step.kind != ScheduleStep::Kind::kSend && step.kind != ScheduleStep::Kind::kRecv)
        continue;
      const bool leaves = step.kind == ScheduleStep::Kind::kSend;
      const bool near = topology.share_host(Rank{r}, step.peer);
      const Slice& slice = leaves ? step.from : step.to;
      bytes[{near, leaves, near ? r : topology.host_of(Rank{r})}] +=
          static_cast<double>(slice.count) * static_cast<double>(collective.width);
    }
  Busiest busiest;
  for (const auto& [link, carried] : bytes) {
    double& most = std::get<0>(link) ? busiest.inside : busiest.between;
    most = std::max(most, carried);
  }
  return busiest;
}

// Whatever else overlaps: what leaves a host for others goes through one link, to whomever, and
// what arrives there likewise.
TEST(Price, IsNeverLessThanTheBusiestLinkTakes) {
  EXPECT_TRUE(rc::check([] {
    const auto cost = [](double most) { return most * *rc::gen::inRange(0, 1000) / 1000; };
    const CostTable costs{.inside = {cost(1e-4), cost(1e-8)},
                          .between = {cost(1e-3), cost(1e-7)},
                          .per_message = cost(1e-5)};
    const auto size = static_cast<std::size_t>(*rc::gen::inRange(2, 14));
    const bool regular = *rc::gen::arbitrary<bool>();  // what is folded
    const Topology topology =
        regular ? Topology::regular(static_cast<std::int32_t>(size), *rc::gen::inRange(1, 4))
                : Topology(
                      *rc::gen::container<std::vector<std::int32_t>>(size, rc::gen::inRange(0, 4)));
    for (const Kind kind : kPricedKinds)
      for (const Method& method : methods_of(kind, topology)) {
        const Collective collective =
            floats(kind, std::int64_t{topology.size()} * *rc::gen::inRange(1, 10000));
        const Busiest busiest = busiest_links(collective, method, topology);
        const double least = std::max(busiest.between * costs.between.per_byte,
                                      busiest.inside * costs.inside.per_byte);
        RC_ASSERT(price(collective, method, topology, costs) >= least * (1 - 1e-9));
      }
  }));
}

// Four hosts, each with a link of 100 Mb/s, as bench/collectives/links.py has them.
constexpr CostTable kSlowLinks{.inside = {3e-6, 1e-10},
                               .between = {70e-6, 8e-8},
                               .per_message = 5e-6,
                               .reduce_per_byte = 1e-10,
                               .copy_per_byte = 1e-10};

// Both its ways go through each host's one link, which carries what a ring's does; and where they
// come from two hosts they meet there. Of small messages the fewer rounds count.
TEST(Price, OfABidirectionalRingIsNotBelowTheBytesOfARing) {
  for (const std::int32_t n : {3, 4, 5, 8, 16})
    for (const std::int64_t each : {64, 65536, 262144}) {
      const Collective sum = floats(Kind::kAllReduce, n * each);
      const Topology hosts = Topology::apart(n);
      const auto bytes = static_cast<double>(2 * (n - 1) * each) * 4 * kSlowLinks.between.per_byte;
      const double both = price(sum, {Algorithm::kBidirectionalRing}, hosts, kSlowLinks);
      const double ring = price(sum, {Algorithm::kRing}, hosts, kSlowLinks);
      EXPECT_GE(both, bytes) << n << " hosts, " << each;
      if (each == 64)
        EXPECT_LT(both, ring) << n << " hosts";
      else
        EXPECT_GT(both, ring * 1.05) << n << " hosts, " << each;
      EXPECT_LT(both, ring + kMeeting * bytes + 1e-9);
    }
}

// Ranks of a host share its way out: each gets a fourth of it.
TEST(Price, KnowsThatRanksShareTheirHostsNetwork) {
  const Collective swap = floats(Kind::kAllToAll, 8 * 1000000);
  const double apart = price(swap, {Algorithm::kPairwise}, Topology::apart(8), kPlain);
  const double shared = price(swap, {Algorithm::kPairwise}, Topology::regular(2, 4), kPlain);
  const double block = 4e6 * kPlain.between.per_byte;
  EXPECT_GT(apart, 7 * block);  // of another host each
  EXPECT_LT(apart, (7 + 6 * kMeeting) * block + 1e-3);
  EXPECT_GT(shared, 4 * 4 * block);  // four blocks of each of four ranks
  EXPECT_LT(shared, 5 * 4 * block);
}

std::vector<Topology> folding_topologies() {
  std::vector<Topology> all;
  for (const std::int32_t size : {2, 3, 6, 8, 12}) all.push_back(Topology::apart(size));
  for (const std::int32_t size : {2, 5, 8}) all.push_back(Topology::one_host(size));
  for (const std::int32_t each : {2, 3, 4}) all.push_back(Topology::regular(4, each));
  all.push_back(Topology({0, 1, 2, 0, 1, 2, 0, 1, 2}));
  all.push_back(Topology({0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2}));
  return all;
}

// Ranks that stand for others give the price that all of them would.
TEST(Price, IsTheSameFoldedAndPlayedByAllRanks) {
  int folded = 0;
  for (const Topology& topology : folding_topologies())
    for (const Kind kind : kPricedKinds)
      for (const Method& method : methods_of(kind, topology)) {
        const Fold fold = fold_of(kind, method, topology);
        if (fold.ranks() == topology.size()) continue;
        ++folded;
        const Collective collective = floats(kind, 20000 * topology.size());
        const double all =
            price_folded(collective, method, Fold(topology, topology.size()), kPlain);
        // Where all play, some ranks send in two messages what the first one does in one.
        const bool wraps = method.algorithm == Algorithm::kHalvingDoubling ||
                           method.inner == Algorithm::kHalvingDoubling ||
                           method.outer == Algorithm::kHalvingDoubling;
        const double more = wraps ? 40 * kPlain.per_message : 0;
        // Where ranks share a port with those they stand for, the order in which they do is lost;
        // among different ones that share it, messages that are due at once go in another order.
        const bool shares_port = topology.members(0).size() > 1;
        const double share = fold.sharers(0) > 1 ? 0.4 : shares_port ? 0.1 : 0.05;
        EXPECT_NEAR(price_folded(collective, method, fold, kPlain), all, all * share + more)
            << describe(method) << " on " << topology.size() << " ranks of " << topology.hosts()
            << " hosts, kind " << static_cast<int>(kind);
      }
  EXPECT_GT(folded, 100);
}

// A host of so many ranks after the other, `times` over.
Topology hosts_of(const std::vector<std::int32_t>& ranks, int times) {
  std::vector<std::int32_t> host_of;
  std::int32_t host = 0;
  for (int i = 0; i < times; ++i)
    for (const std::int32_t each : ranks) {
      host_of.insert(host_of.end(), static_cast<std::size_t>(each), host);
      ++host;
    }
  return Topology(host_of);
}

std::vector<Topology> unequal_topologies() {
  std::vector<Topology> all;
  for (const int times : {1, 2, 3, 4})
    for (const std::vector<std::int32_t>& ranks :
         {std::vector<std::int32_t>{2, 1}, {1, 2}, {4, 2}, {8, 7}, {3, 1, 2}, {2, 2, 1}, {5}})
      all.push_back(hosts_of(ranks, times));
  all.push_back(Topology({0, 1, 1, 0, 2, 3, 3, 2}));
  all.push_back(hosts_of({8, 4}, 4));
  all.push_back(hosts_of({8, 4}, 8));  // more than are played where hosts differ
  return all;
}

// What is sent round from the last host to the first is two messages of some hosts only: where
// hosts that differ are played, all of them are.
TEST(Price, OfHostsThatDifferInTurn) {
  for (const Topology& topology : unequal_topologies())
    for (const Kind kind : kPricedKinds)
      for (const Method& method : methods_of(kind, topology))
        for (const std::int64_t count : {0, 1, 7, 16384, 20000 * topology.size()}) {
          const Collective collective = floats(kind, count);
          double found = 0;
          ASSERT_NO_THROW(found = price(collective, method, topology, kPlain))
              << describe(method) << " of " << count << " on " << topology.size() << " ranks of "
              << topology.hosts() << " hosts, kind " << static_cast<int>(kind);
          const Fold fold = fold_of(kind, method, topology);
          if (method.outer != Algorithm::kHalvingDoubling || topology.size() > 64) continue;
          if (fold.ranks() == static_cast<std::int32_t>(topology.members(0).size())) continue;
          const Fold everybody(topology, topology.size());
          EXPECT_EQ(found, price_folded(collective, method, everybody, kPlain)) << describe(method);
        }
}

TEST(ChooseMethod, OfHostsThatDifferInTurn) {
  const Method wish{Algorithm::kHierarchical, Algorithm::kAuto, Algorithm::kHalvingDoubling};
  for (const Topology& topology : unequal_topologies())
    for (const Kind kind : kPricedKinds)
      for (const std::int64_t count : {1, 16384, 262144})
        for (const Method& wished : {Method{Algorithm::kAuto}, wish})
          ASSERT_NO_THROW(static_cast<void>(
              choose_method(floats(kind, count), wished, topology, default_costs(Wire::kTcp))))
              << count << " on " << topology.size() << " ranks of " << topology.hosts();
}

TEST(Price, OfTenThousandRanks) {
  const Collective sum = floats(Kind::kAllReduce, 1 << 24);
  const std::int32_t hosts = kSanitized ? 125 : 1250;
  for (const Topology& topology : {Topology::apart(8 * hosts), Topology::regular(hosts, 8)})
    for (const Method& method : methods_of(sum.kind, topology)) {
      const bool levels = method.algorithm == Algorithm::kHierarchical;
      if (levels && method.inner != Algorithm::kHalvingDoubling) continue;
      const double found = price(sum, method, topology, kPlain);
      EXPECT_GT(found, (1 << 26) * kPlain.between.per_byte) << describe(method);
      EXPECT_LT(found, 10000) << describe(method);
    }
}

// Hosts that differ are taken for as large as the largest.
TEST(Price, OfManyRanksOnUnequalHosts) {
  std::vector<std::int32_t> hosts;
  for (std::int32_t rank = 0; rank < 799; ++rank) hosts.push_back(rank / 8);
  const Collective sum = floats(Kind::kAllReduce, 1 << 20);
  for (const Method& method :
       {Method{Algorithm::kRing}, Method{Algorithm::kDirect}, Method{Algorithm::kBidirectionalRing},
        Method{Algorithm::kHierarchical, Algorithm::kTree, Algorithm::kRing}})
    EXPECT_EQ(price(sum, method, Topology(hosts), kPlain),
              price(sum, method, Topology::regular(100, 8), kPlain))
        << describe(method);
}

Method chosen(Kind kind, std::int64_t bytes, const Topology& topology,
              const CostTable& costs = default_costs(Wire::kTcp)) {
  return choose_method({kind, bytes}, {}, topology, costs);
}

bool is_one_of(const Method& method, std::initializer_list<Algorithm> algorithms) {
  return std::ranges::find(algorithms, method.algorithm) != algorithms.end();
}

TEST(ChooseMethod, TakesFewRoundsWhereLittleIsSentAndFewBytesWhereMuchIs) {
  using enum Algorithm;
  for (const std::int32_t n : {2, 3, 4}) {
    EXPECT_EQ(chosen(Kind::kAllReduce, 1024, Topology::apart(n)).algorithm, kDirect) << n;
    EXPECT_EQ(chosen(Kind::kAllGather, 1024, Topology::apart(n)).algorithm, kDirect) << n;
  }
  for (const std::int32_t n : {64, 256}) {
    EXPECT_TRUE(is_one_of(chosen(Kind::kAllReduce, 1024, Topology::apart(n)),
                          {kTree, kDoubleTree, kHalvingDoubling}))
        << n;
    EXPECT_EQ(chosen(Kind::kAllToAll, 8 * n, Topology::apart(n)).algorithm, kBruck) << n;
    EXPECT_EQ(chosen(Kind::kBroadcast, 1024, Topology::apart(n)).algorithm, kTree) << n;
  }
  for (const std::int32_t n : {3, 4, 8, 32}) {
    EXPECT_TRUE(is_one_of(chosen(Kind::kAllReduce, 1 << 28, Topology::apart(n)),
                          {kRing, kBidirectionalRing, kHalvingDoubling}))
        << n;
    EXPECT_EQ(chosen(Kind::kAllToAll, 1 << 26, Topology::apart(n)).algorithm, kPairwise) << n;
  }
  EXPECT_EQ(chosen(Kind::kBroadcast, 1 << 26, Topology::apart(8)).algorithm, kRing);
}

TEST(ChooseMethod, UsesBothLevelsWhereHostsHaveSeveralRanks) {
  const Method large = chosen(Kind::kAllReduce, 1 << 20, Topology::regular(4, 8));
  EXPECT_EQ(large.algorithm, Algorithm::kHierarchical) << describe(large);
  EXPECT_NE(large.inner, Algorithm::kTree);  // all ranks of a host carry a share
  const Method gather = chosen(Kind::kAllGather, 1 << 26, Topology::regular(4, 8));
  EXPECT_NE(gather.algorithm, Algorithm::kDirect) << describe(gather);
}

// The rings' and halving and doubling's bytes are the same, which all go through the same links.
TEST(ChooseMethod, TakesOneNeighbourWhereLinksAreSlow) {
  for (const std::int32_t n : {3, 4, 5})
    for (const Kind kind : {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather})
      for (const std::int64_t bytes : {3 << 20, 12 << 20})
        EXPECT_EQ(chosen(kind, bytes, Topology::apart(n), kSlowLinks).algorithm, Algorithm::kRing)
            << n << " hosts, " << bytes << ", kind " << static_cast<int>(kind);
  EXPECT_NE(chosen(Kind::kAllReduce, 1024, Topology::apart(4), kSlowLinks).algorithm,
            Algorithm::kRing);
  const Method both = chosen(Kind::kAllReduce, 12 << 20, Topology::regular(4, 4), kSlowLinks);
  EXPECT_EQ(both.algorithm, Algorithm::kHierarchical) << describe(both);
  EXPECT_EQ(both.outer, Algorithm::kRing) << describe(both);
}

TEST(ChooseMethod, FollowsTheTable) {
  CostTable costs = default_costs(Wire::kTcp);
  const Topology topology = Topology::apart(16);
  costs.between.latency = costs.per_message = 0;  // only bytes count
  EXPECT_FALSE(is_one_of(chosen(Kind::kAllReduce, 4096, topology, costs),
                         {Algorithm::kDirect, Algorithm::kTree}));
  costs.between = {1, 0};  // only rounds do
  EXPECT_EQ(chosen(Kind::kAllReduce, 1 << 26, topology, costs).algorithm, Algorithm::kDirect);
}

TEST(ChooseMethod, IsAlwaysTheCheapest) {
  EXPECT_TRUE(rc::check([] {
    const auto cost = [](double most) { return most * *rc::gen::inRange(0, 1000) / 1000; };
    const CostTable costs{.inside = {cost(1e-4), cost(1e-8)},
                          .between = {cost(1e-3), cost(1e-7)},
                          .per_message = cost(1e-5),
                          .reduce_per_byte = cost(1e-9),
                          .copy_per_byte = cost(1e-9)};
    const auto size = static_cast<std::size_t>(*rc::gen::inRange(1, 20));
    const Topology topology(
        *rc::gen::container<std::vector<std::int32_t>>(size, rc::gen::inRange(0, 4)));
    const Collective collective{
        *rc::gen::elementOf(std::vector(std::begin(kPricedKinds), std::end(kPricedKinds))),
        std::int64_t{1} << *rc::gen::inRange(0, 24)};
    const Method method = choose_method(collective, {}, topology, costs);
    const double found = price(collective, method, topology, costs);
    for (const Method& other : methods_of(collective.kind, topology))
      RC_ASSERT(found <= price(collective, other, topology, costs));
  }));
}

TEST(ChooseMethod, GrantsWishesItCan) {
  const CostTable costs = default_costs(Wire::kTcp);
  const auto choose = [&](Kind kind, const Method& wish, const Topology& topology) {
    return choose_method({kind, 1 << 10}, wish, topology, costs);
  };
  const Topology apart = Topology::apart(4);
  EXPECT_EQ(choose(Kind::kAllReduce, {Algorithm::kTree}, apart).algorithm, Algorithm::kTree);
  EXPECT_EQ(choose(Kind::kAllGather, {Algorithm::kTree}, apart),
            chosen(Kind::kAllGather, 1 << 10, apart));
  const Topology two = Topology::regular(2, 2);
  const Method whole{Algorithm::kHierarchical, Algorithm::kRing, Algorithm::kDoubleTree};
  EXPECT_EQ(choose(Kind::kAllReduce, whole, two), whole);
  EXPECT_EQ(choose(Kind::kAllReduce, whole, apart), chosen(Kind::kAllReduce, 1 << 10, apart));
  const Method part =
      choose(Kind::kAllReduce, {Algorithm::kHierarchical, Algorithm::kAuto, Algorithm::kTree}, two);
  EXPECT_EQ(part.algorithm, Algorithm::kHierarchical);
  EXPECT_EQ(part.outer, Algorithm::kTree);
  EXPECT_NE(part.inner, Algorithm::kAuto);
}

}  // namespace
}  // namespace muster::comm
