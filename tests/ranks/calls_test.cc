// Ranks that do not call the same: all of them learn at once who called what, over every engine.

#include "tests/ranks/ranks.h"

namespace muster::comm {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

struct Mistake {
  Op usual;
  Op odd;
  std::string usual_label = "gradients/2";
  std::string odd_label = "gradients/2";
};

OpOptions patient(const std::string& label) {
  OpOptions options;
  options.timeout = std::chrono::minutes(5);  // far longer than any of it may take
  options.label = label;
  return options;
}

// What a rank comes to that makes its part of the mistake, and goes on where nobody stops it.
Status commit(Communicator& world, const Mistake& mistake, bool odd) {
  const auto& label = odd ? mistake.odd_label : mistake.usual_label;
  if (Status called = world.submit(odd ? mistake.odd : mistake.usual, patient(label)).wait();
      !called)
    return called;
  return world.submit(Barrier{}, patient("after it")).wait();
}

void expect_named(const Status& status, const std::string& a, const std::string& b) {
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kInvalid) << status.error().message;
  EXPECT_THAT(status.error().message, AllOf(HasSubstr(a), HasSubstr(b)));
}

// Memory for the operands of both calls.
struct Operands {
  Operands()
      : a(Values::filled(DType::kF32, {6}, [](std::int64_t) { return 1; })),
        b(Values::filled(DType::kI32, {6}, [](std::int64_t) { return 1; })) {}
  TensorView as(Shape shape) {
    TensorView view = a.view();
    view.shape = std::move(shape);
    view.bytes = view.bytes.first(static_cast<std::size_t>(4 * element_count(view.shape)));
    return view;
  }
  Values a;
  Values b;
};

TEST_P(Conformance, DifferentCallsAreNamedOnAllRanks) {
  for (const std::int32_t odd : {0, 1, 2}) {
    for (int kind = 0; kind < 6; ++kind) {
      on_every_rank(create(3), [&](Communicator& world) {
        Operands own;
        const TensorView six = own.as({6});
        const auto even = std::make_shared<SumTree>(owners_by_count({1, 1, 1}), 3);
        const auto uneven = std::make_shared<SumTree>(LeafOwners{Rank{1}, Rank{0}, Rank{2}}, 3);
        const Mistake mistakes[] = {
            {AllReduce{six}, Broadcast{own.as({5}), Rank{1}}},
            {AllReduce{six}, AllReduce{own.b.view()}},
            {AllReduce{six}, AllReduce{own.as({2, 3})}},
            {AllReduce{six}, AllReduce{six, Reduce::kMax}},
            {AllReduce{six}, AllReduce{six}, "gradients/2", "gradients/3"},
            {AllReduce{own.as({1, 6}), Reduce::kSum, even},
             AllReduce{own.as({1, 6}), Reduce::kSum, uneven}},
        };
        const std::string odd_calls[] = {"calls broadcast F32 [5] from rank 1 (gradients/2)",
                                         "calls all_reduce sum I32 [6] (gradients/2)",
                                         "calls all_reduce sum F32 [2, 3] (gradients/2)",
                                         "calls all_reduce max F32 [6] (gradients/2)",
                                         "calls all_reduce sum F32 [6] (gradients/3)",
                                         "calls the same with other owners"};
        const Mistake& mistake = mistakes[kind];
        const Status status = commit(world, mistake, to_int(world.group().rank) == odd);
        expect_named(status, odd_calls[kind],
                     kind == 5 ? "tree of 3 leaves" : "F32 [6] (gradients/2)");
        EXPECT_THAT(status.error().message, HasSubstr("rank " + std::to_string(odd) + " calls"));
      });
    }
  }
}

// Each waits for the other, so that nothing would ever come.
TEST_P(Conformance, DifferentRootsThatWaitForEachOtherAreNamed) {
  on_every_rank(create(2), [](Communicator& world) {
    float value = 1;
    const TensorView view = view_of(std::span(&value, 1));
    const Rank other{1 - to_int(world.group().rank)};
    expect_named(world.submit(Broadcast{view, other}, patient("")).wait(),
                 "rank 0 calls broadcast F32 [1] from rank 1",
                 "rank 1 calls broadcast F32 [1] from rank 0");
  });
}

// Each only sends, so that both would take the broadcast for done.
TEST_P(Conformance, DifferentRootsThatOnlySendAreNamed) {
  on_every_rank(create(2), [](Communicator& world) {
    float value = 1;
    const TensorView view = view_of(std::span(&value, 1));
    Status status = world.submit(Broadcast{view, world.group().rank}, patient("")).wait();
    if (status) status = world.submit(Barrier{}, patient("")).wait();
    expect_named(status, "rank 0 calls broadcast F32 [1] from rank 0",
                 "rank 1 calls broadcast F32 [1] from rank 1");
  });
}

// Each would play a schedule that the other knows nothing of, and come to a wrong sum.
TEST_P(Conformance, DifferentSchedulesAreNamed) {
  on_every_rank(create(2), [](Communicator& world) {
    float value = 1;
    OpOptions options = patient("gradients/2");
    options.algorithm = to_int(world.group().rank) == 0 ? Algorithm::kDirect : Algorithm::kTree;
    const TensorView view = view_of(std::span(&value, 1));
    Status status = world.submit(AllReduce{view}, options).wait();
    if (status) status = world.submit(Barrier{}, patient("after it")).wait();
    expect_named(status, "rank 0 calls all_reduce sum F32 [1] by direct (gradients/2)",
                 "rank 1 calls all_reduce sum F32 [1] by tree (gradients/2)");
  });
}

TEST_P(Conformance, ManyCallsInFlightAreCompared) {
  on_every_rank(create(4), [](Communicator& world) {
    std::vector<std::vector<float>> values;
    for (std::size_t i = 0; i < 100; ++i) values.emplace_back(i + 1, static_cast<float>(i));
    std::vector<Work> works;
    for (std::size_t i = 0; i < values.size(); ++i)
      works.push_back(world.submit(AllReduce{view_of(std::span(values[i]))},
                                   patient("bucket " + std::to_string(i))));
    for (const Work& work : works) {
      const Status status = work.wait();
      ASSERT_TRUE(status) << status.error().message;
    }
  });
}

}  // namespace
}  // namespace muster::comm
