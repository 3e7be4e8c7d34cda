// Any schedule, over any hosts, at any size, count, dtype and reduction, gives what one rank would
// compute from everybody's data in rank order.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <atomic>
#include <vector>

#include "muster/comm/backend/loopback/loopback.h"
#include "muster/comm/schedule.h"
#include "tests/ranks/ranks.h"

namespace muster::comm {
namespace {

using Kind = Collective::Kind;

// What is drawn for one case.
struct Drawn {
  std::vector<std::int32_t> hosts;
  Method method;
  DType dtype = DType::kF32;
  Reduce reduce = Reduce::kSum;
  std::int64_t count = 0;

  std::int32_t size() const { return static_cast<std::int32_t>(hosts.size()); }
};

std::string shown(const Drawn& drawn) {
  return fmt::format("{}, {} elements of {}, {}, ranks on hosts {}", describe(drawn.method),
                     drawn.count, to_string(drawn.dtype), name(drawn.reduce),
                     fmt::join(drawn.hosts, " "));
}

Drawn draw(Kind kind) {
  Drawn drawn;
  const auto size = static_cast<std::size_t>(*rc::gen::inRange(1, 10));
  drawn.hosts = *rc::gen::container<std::vector<std::int32_t>>(size, rc::gen::inRange(0, 4));
  drawn.method = *rc::gen::elementOf(methods_of(kind, Topology(drawn.hosts)));
  drawn.dtype = *rc::gen::elementOf(std::vector(std::begin(kAllDTypes), std::end(kAllDTypes)));
  drawn.reduce = *rc::gen::elementOf(std::vector(std::begin(kReduces), std::end(kReduces)));
  drawn.count = *rc::gen::oneOf(rc::gen::inRange<std::int64_t>(0, 40),
                                rc::gen::inRange<std::int64_t>(40, 70000));
  return drawn;
}

// Whether `play` (of a communicator) is true on all ranks.
bool holds_on_all(const Drawn& drawn, const std::function<bool(Communicator&)>& play) {
  std::atomic<int> held = 0;
  on_every_rank(create_loopback(Topology(drawn.hosts)),
                [&](Communicator& world) { held += play(world) ? 1 : 0; });
  return held == drawn.size();
}

bool done(Communicator& world, const Drawn& drawn, const Op& op) {
  OpOptions options;
  options.algorithm = drawn.method.algorithm;
  options.inner = drawn.method.inner;
  options.outer = drawn.method.outer;
  return world.submit(op, options).wait().has_value();
}

// Holds for so many cases drawn from the operation's; a failing one is shrunk and shown.
void check_all(Kind kind, const std::function<bool(const Drawn&)>& holds) {
  EXPECT_TRUE(rc::check([&] {
    const Drawn drawn = draw(kind);
    RC_LOG() << shown(drawn) << '\n';
    RC_ASSERT(holds(drawn));
  }));
}

// Of each rank, some none.
std::shared_ptr<const Shards> shards_for(const Drawn& drawn) {
  Shards shards{{0}};
  for (std::int32_t rank = 0; rank < drawn.size(); ++rank) {
    const std::int64_t most = drawn.count / drawn.size();
    shards.begin.push_back(shards.begin.back() + (rank % 3 == 1 ? 0 : most - most * rank / 16));
  }
  return std::make_shared<const Shards>(std::move(shards));
}

TEST(AnySchedule, ReducesAsOneRankWould) {
  check_all(Kind::kAllReduce, [](const Drawn& drawn) {
    const auto expected = Values::filled(drawn.dtype, {drawn.count}, [&](std::int64_t i) {
      return reduced(drawn.reduce, drawn.size(), i);
    });
    return holds_on_all(drawn, [&](Communicator& world) {
      Values values = Values::filled(drawn.dtype, {drawn.count}, [&](std::int64_t i) {
        return contribution(drawn.reduce, to_int(world.group().rank), drawn.size(), i);
      });
      return done(world, drawn, AllReduce{values.view(), drawn.reduce}) &&
             values.differences(expected) == 0;
    });
  });
}

TEST(AnySchedule, ScattersWhatOneRankWould) {
  check_all(Kind::kReduceScatter, [](const Drawn& drawn) {
    const auto shards = shards_for(drawn);
    return holds_on_all(drawn, [&](Communicator& world) {
      const Rank me = world.group().rank;
      Values input = Values::filled(drawn.dtype, {1, shards->count()}, [&](std::int64_t i) {
        return contribution(drawn.reduce, to_int(me), drawn.size(), i);
      });
      const Values before = input;
      Values output(drawn.dtype, {shards->count_of(me)});
      const auto expected =
          Values::filled(drawn.dtype, {shards->count_of(me)}, [&](std::int64_t i) {
            return reduced(drawn.reduce, drawn.size(), shards->begin_of(me) + i);
          });
      return done(world, drawn, ReduceScatter{output.view(), input.view(), drawn.reduce, shards}) &&
             output.differences(expected) == 0 && input.differences(before) == 0;
    });
  });
}

TEST(AnySchedule, GathersEverybodysShards) {
  check_all(Kind::kAllGather, [](const Drawn& drawn) {
    const auto shards = shards_for(drawn);
    const auto at = [](std::int64_t i) { return number_at(0, i, 1); };
    const auto expected = Values::filled(drawn.dtype, {shards->count()}, at);
    return holds_on_all(drawn, [&](Communicator& world) {
      const Rank me = world.group().rank;
      Values input = Values::filled(drawn.dtype, {shards->count_of(me)},
                                    [&](std::int64_t i) { return at(shards->begin_of(me) + i); });
      Values output(drawn.dtype, {shards->count()});
      return done(world, drawn, AllGather{output.view(), input.view(), shards}) &&
             output.differences(expected) == 0;
    });
  });
}

TEST(AnySchedule, BroadcastsTheRootsData) {
  check_all(Kind::kBroadcast, [](const Drawn& drawn) {
    const Rank root{static_cast<std::int32_t>(drawn.count) % drawn.size()};
    const auto of = [&](Rank rank) {
      return Values::filled(drawn.dtype, {drawn.count},
                            [&](std::int64_t i) { return number_at(to_int(rank), i, 2); });
    };
    const Values expected = of(root);
    return holds_on_all(drawn, [&](Communicator& world) {
      Values values = of(world.group().rank);
      return done(world, drawn, Broadcast{values.view(), root}) &&
             values.differences(expected) == 0;
    });
  });
}

TEST(AnySchedule, ExchangesEveryBlock) {
  check_all(Kind::kAllToAll, [](const Drawn& drawn) {
    const std::int64_t block = drawn.count / drawn.size() + 1;
    return holds_on_all(drawn, [&](Communicator& world) {
      const std::int32_t me = to_int(world.group().rank);
      Values input = Values::filled(drawn.dtype, {drawn.size(), block},
                                    [&](std::int64_t i) { return number_at(me, i, 3); });
      Values output(drawn.dtype, {drawn.size(), block});
      const auto expected = Values::filled(drawn.dtype, {drawn.size(), block}, [&](std::int64_t i) {
        return number_at(static_cast<std::int32_t>(i / block), me * block + i % block, 3);
      });
      return done(world, drawn, AllToAll{output.view(), input.view()}) &&
             output.differences(expected) == 0;
    });
  });
}

}  // namespace
}  // namespace muster::comm
