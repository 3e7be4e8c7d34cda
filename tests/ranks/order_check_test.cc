// The order check over every engine: all ranks learn at once who called what.

#include "muster/comm/wrap/wrappers.h"
#include "tests/ranks/ranks.h"

namespace muster::comm {
namespace {

CommunicatorPtr checked(Communicator& world) {
  auto made = with_order_check({&world, [](Communicator*) {}});  // the caller keeps it alive
  EXPECT_TRUE(made) << made.error().message;
  return *made;
}

TEST_P(Conformance, OrderCheckNamesBothCallsOnAllRanks) {
  on_every_rank(create(3), [](Communicator& world) {
    const auto check = checked(world);
    const bool odd = to_int(world.group().rank) == 1;
    std::vector<float> values(odd ? 7 : 5, 1.0F);
    const TensorView view = view_of(std::span(values));
    const Status status =
        (odd ? check->submit(Broadcast{view}, {}) : check->submit(AllReduce{view}, {})).wait();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kInvalid);
    EXPECT_EQ(status.error().peer, Rank{1});
    EXPECT_THAT(status.error().message,
                ::testing::AllOf(::testing::HasSubstr("rank 0 calls all_reduce sum F32 [5]"),
                                 ::testing::HasSubstr("rank 1 calls broadcast F32 [7]")));
    ASSERT_TRUE(check->submit(Barrier{}, {}).wait());  // nothing was started, nothing is broken
  });
}

TEST_P(Conformance, OrderCheckKeepsOrderWithManyInFlight) {
  on_every_rank(create(4), [](Communicator& world) {
    const auto check = checked(world);
    std::vector<std::vector<float>> values;
    for (std::size_t i = 0; i < 30; ++i) values.emplace_back(i + 1, static_cast<float>(i));
    std::vector<Work> works;
    for (auto& v : values) works.push_back(check->submit(AllReduce{view_of(std::span(v))}, {}));
    for (const Work& work : works) ASSERT_TRUE(work.wait());
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(values[i], std::vector<float>(i + 1, 4.0F * static_cast<float>(i)));
  });
}

}  // namespace
}  // namespace muster::comm
