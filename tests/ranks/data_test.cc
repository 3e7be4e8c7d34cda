// Every operation gives the right values, at every size, count, dtype, reduction and schedule. Over
// shared memory OpOptions::algorithm has no effect (ranks reduce straight out of each other's
// memory, without a schedule): there every algorithm is the same way again.

#include <fmt/format.h>

#include <span>
#include <utility>

#include "tests/ranks/ranks.h"

namespace muster::comm {
namespace {

struct Case {
  DType dtype;
  Reduce reduce;
  Algorithm algorithm;
  std::int64_t count;
};

// All of them. Of the large count, which costs minutes, each schedule with sums and each reduction
// with one schedule; under a sanitizer each dtype, reduction and schedule once. The test
// ranks.conformance.whole, one of the long ones, asks for every combination.
bool is_told_apart(const Case& c) {
  if (asks_for_all() || c.count <= kSmallCount) return true;
  const bool sums = c.reduce == Reduce::kSum;
  const bool chosen = c.algorithm == Algorithm::kAuto;
  return kSanitized ? (c.dtype == DType::kF32) + sums + chosen >= 2 : sums || chosen;
}

std::vector<Case> cases(std::span<const Algorithm> algorithms) {
  std::vector<Case> all;
  for (const std::int64_t count : kCounts)
    for (const DType dtype : kAllDTypes)
      for (const Reduce reduce : kReduces)
        for (const Algorithm algorithm : algorithms)
          if (const Case c{dtype, reduce, algorithm, count}; is_told_apart(c)) all.push_back(c);
  return all;
}

// For operations that do not reduce.
std::vector<Case> moving_cases(std::span<const Algorithm> algorithms) {
  std::vector<Case> all = cases(algorithms);
  std::erase_if(all, [](const Case& c) { return c.reduce != Reduce::kSum; });
  return all;
}

OpOptions options_of(const Case& c) {
  OpOptions options;
  options.algorithm = c.algorithm;
  options.label = fmt::format("dtype {} reduce {} algorithm {} count {}", static_cast<int>(c.dtype),
                              static_cast<int>(c.reduce), static_cast<int>(c.algorithm), c.count);
  return options;
}

void expect_done(const Status& status, const OpOptions& options) {
  EXPECT_TRUE(status) << options.label << ": " << (status ? "" : status.error().message);
}

TEST_P(Conformance, AllReduce) {
  for (const std::int32_t size : kSizes) {
    on_every_rank(create(size), [&](Communicator& world) {
      const std::int32_t rank = to_int(world.group().rank);
      for (const Case& c : cases(kAllReduceAlgorithms)) {
        Values values = Values::filled(c.dtype, {c.count}, [&](std::int64_t i) {
          return contribution(c.reduce, rank, size, i);
        });
        const OpOptions options = options_of(c);
        expect_done(world.submit(AllReduce{values.view(), c.reduce}, options).wait(), options);
        const Values expected = Values::filled(
            c.dtype, {c.count}, [&](std::int64_t i) { return reduced(c.reduce, size, i); });
        ASSERT_EQ(values.differences(expected), 0) << size << " ranks, " << options.label;
      }
    });
  }
}

TEST_P(Conformance, ReduceScatter) {
  for (const std::int32_t size : kSizes) {
    on_every_rank(create(size), [&](Communicator& world) {
      const std::int32_t rank = to_int(world.group().rank);
      for (const Case& c : cases(kBlockAlgorithms)) {
        Values input = Values::filled(c.dtype, {size, c.count}, [&](std::int64_t i) {
          return contribution(c.reduce, rank, size, i);
        });
        const Values before = input;
        Values output(c.dtype, {c.count});
        const OpOptions options = options_of(c);
        expect_done(
            world.submit(ReduceScatter{output.view(), input.view(), c.reduce}, options).wait(),
            options);
        const Values expected = Values::filled(c.dtype, {c.count}, [&](std::int64_t i) {
          return reduced(c.reduce, size, rank * c.count + i);
        });
        ASSERT_EQ(output.differences(expected), 0) << size << " ranks, " << options.label;
        ASSERT_EQ(input.differences(before), 0) << "the input changed, " << options.label;
      }
    });
  }
}

TEST_P(Conformance, AllGather) {
  for (const std::int32_t size : kSizes) {
    on_every_rank(create(size), [&](Communicator& world) {
      const std::int32_t rank = to_int(world.group().rank);
      for (const Case& c : moving_cases(kBlockAlgorithms)) {
        Values input = Values::filled(c.dtype, {c.count},
                                      [&](std::int64_t i) { return number_at(rank, i, 1); });
        Values output(c.dtype, {size, c.count});
        const OpOptions options = options_of(c);
        expect_done(world.submit(AllGather{output.view(), input.view()}, options).wait(), options);
        const Values expected = Values::filled(c.dtype, {size, c.count}, [&](std::int64_t i) {
          return number_at(static_cast<std::int32_t>(i / c.count), i % c.count, 1);
        });
        ASSERT_EQ(output.differences(expected), 0) << size << " ranks, " << options.label;
      }
    });
  }
}

TEST_P(Conformance, Broadcast) {
  for (const std::int32_t size : kSizes) {
    on_every_rank(create(size), [&](Communicator& world) {
      const std::int32_t rank = to_int(world.group().rank);
      std::int32_t root = 0;
      for (const Case& c : moving_cases(kBroadcastAlgorithms)) {
        root = (root + 1) % size;
        Values values = Values::filled(c.dtype, {c.count},
                                       [&](std::int64_t i) { return number_at(rank, i, 2); });
        const OpOptions options = options_of(c);
        expect_done(world.submit(Broadcast{values.view(), Rank{root}}, options).wait(), options);
        const Values expected = Values::filled(
            c.dtype, {c.count}, [&](std::int64_t i) { return number_at(root, i, 2); });
        ASSERT_EQ(values.differences(expected), 0) << size << " ranks, " << options.label;
      }
    });
  }
}

TEST_P(Conformance, AllToAll) {
  for (const std::int32_t size : kSizes) {
    on_every_rank(create(size), [&](Communicator& world) {
      const std::int32_t rank = to_int(world.group().rank);
      for (const Case& c : moving_cases(kAllToAllAlgorithms)) {
        Values input = Values::filled(c.dtype, {size, c.count},
                                      [&](std::int64_t i) { return number_at(rank, i, 3); });
        Values output(c.dtype, {size, c.count});
        const OpOptions options = options_of(c);
        expect_done(world.submit(AllToAll{output.view(), input.view()}, options).wait(), options);
        const Values expected = Values::filled(c.dtype, {size, c.count}, [&](std::int64_t i) {
          return number_at(static_cast<std::int32_t>(i / c.count), rank * c.count + i % c.count, 3);
        });
        ASSERT_EQ(output.differences(expected), 0) << size << " ranks, " << options.label;
      }
    });
  }
}

// Receives before sends on every rank, tags crossed: any order must do. Two dtypes at a time,
// `turn` and the one behind it.
void pass_on(Communicator& world, std::int64_t count, std::size_t turn) {
  const auto [rank, size] = std::pair(to_int(world.group().rank), world.group().size);
  const std::int32_t right = (rank + 1) % size;
  const std::int32_t left = (rank + size - 1) % size;
  const auto type = [&](int tag) {
    return kAllDTypes[(turn + static_cast<std::size_t>(tag)) % std::size(kAllDTypes)];
  };
  const auto made = [&](std::int32_t sender, int tag) {
    return Values::filled(type(tag), {count},
                          [&](std::int64_t i) { return number_at(sender, i, 10 + tag); });
  };
  Values first(type(0), {count});
  Values second(type(1), {count});
  Values sent[] = {made(rank, 0), made(rank, 1)};
  OpOptions options;
  options.label = fmt::format("{} ranks, dtypes {} and {}, count {}", size,
                              static_cast<int>(type(0)), static_cast<int>(type(1)), count);
  const Work works[] = {
      world.submit(Recv{second.view(), Rank{left}, 1}, options),
      world.submit(Recv{first.view(), Rank{left}, 0}, options),
      world.submit(Send{sent[0].view(), Rank{right}, 0}, options),
      world.submit(Send{sent[1].view(), Rank{right}, 1}, options),
  };
  for (const Work& work : works) expect_done(work.wait(), options);
  EXPECT_EQ(first.differences(made(left, 0)), 0) << options.label;
  EXPECT_EQ(second.differences(made(left, 1)), 0) << options.label;
}

// Every dtype at every count; under a sanitizer two of them a count.
TEST_P(Conformance, SendAndReceive) {
  constexpr std::size_t kTurns = kSanitized ? 1 : std::size(kAllDTypes);
  for (const std::int32_t size : kSizes) {
    on_every_rank(create(size), [&](Communicator& world) {
      for (std::size_t c = 0; c < std::size(kCounts); ++c)
        for (std::size_t turn = 0; turn < kTurns; ++turn) pass_on(world, kCounts[c], 2 * c + turn);
    });
  }
}

// One sender and tag: messages arrive in the order sent, also while collectives run.
TEST_P(Conformance, MessagesOfOneTagStayInOrder) {
  on_every_rank(create(2), [&](Communicator& world) {
    const Rank peer{1 - to_int(world.group().rank)};
    constexpr int kMessages = 200;
    std::vector<std::int32_t> out(kMessages);
    std::vector<std::int32_t> in(kMessages);
    std::vector<Work> works;
    for (int i = 0; i < kMessages; ++i) {
      const auto at = static_cast<std::size_t>(i);
      out[at] = i;
      works.push_back(world.submit(Send{view_of(std::span(&out[at], 1)), peer, 5}, {}));
      works.push_back(world.submit(Recv{view_of(std::span(&in[at], 1)), peer, 5}, {}));
      if (i % 50 == 0) works.push_back(world.submit(Barrier{}, {}));
    }
    for (const Work& work : works) ASSERT_TRUE(work.wait());
    EXPECT_EQ(in, out);
  });
}

}  // namespace
}  // namespace muster::comm
