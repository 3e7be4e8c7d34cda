// What the suite for all engines does not ask of nccl.

#include "muster/comm/backend/nccl/nccl.h"

#include <cstdlib>
#include <thread>

#include "muster/cluster/store.h"
#include "tests/ranks/fake_nccl.h"
#include "tests/ranks/native_ranks.h"

namespace muster::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Ranks create_with_gpus(std::int32_t size) {
  return create_native_ranks(size,
                             {.network = &test_network(),
                              .over = nccl_over_transport({.nccl = &fake_nccl(), .host = "host"})});
}

// In place of memory of a device: the fake has no other.
TensorView on_device(Values& values) {
  TensorView view = values.view();
  view.device = Device::kCuda;
  return view;
}

TEST(Nccl, SumsTensorsOfTheDeviceWhereTheyAre) {
  for (const Reduce reduce : kReduces)
    on_every_rank(create_with_gpus(3), [&](Communicator& world) {
      const std::int32_t rank = to_int(world.group().rank);
      for (const DType dtype : kAllDTypes) {
        Values values = Values::filled(
            dtype, {1000}, [&](std::int64_t i) { return contribution(reduce, rank, 3, i); });
        const Status done = world.submit(AllReduce{on_device(values), reduce}, {}).wait();
        ASSERT_TRUE(done) << done.error().message;
        const Values expected =
            Values::filled(dtype, {1000}, [&](std::int64_t i) { return reduced(reduce, 3, i); });
        EXPECT_EQ(values.differences(expected), 0) << name(reduce) << ' ' << to_string(dtype);
      }
    });
}

// Over the host's memory: in NCCL there is neither.
TEST(Nccl, SumsInOrderAndSendsTensorsOfTheDevice) {
  on_every_rank(create_with_gpus(2), [](Communicator& world) {
    const std::int32_t rank = to_int(world.group().rank);
    const auto tree = std::make_shared<const SumTree>(2, 2);
    Values row = Values::filled(DType::kF32, {1, 1000},
                                [&](std::int64_t i) { return number_at(rank, i, 1); });
    const Status summed = world.submit(AllReduce{on_device(row), Reduce::kSum, tree}, {}).wait();
    ASSERT_TRUE(summed) << summed.error().message;
    EXPECT_EQ(row.differences(Values::filled(
                  DType::kF32, {1, 1000},
                  [](std::int64_t i) { return number_at(0, i, 1) + number_at(1, i, 1); })),
              0);
    const Rank other{1 - rank};
    Values sent =
        Values::filled(DType::kF64, {70000}, [&](std::int64_t i) { return number_at(rank, i, 2); });
    Values received(DType::kF64, {70000});
    const Work works[] = {world.submit(Recv{on_device(received), other, 3}, {}),
                          world.submit(Send{on_device(sent), other, 3}, {})};
    for (const Work& work : works) ASSERT_TRUE(work.wait());
    EXPECT_EQ(
        received.differences(Values::filled(
            DType::kF64, {70000}, [&](std::int64_t i) { return number_at(to_int(other), i, 2); })),
        0);
  });
}

Result<std::shared_ptr<Communicator>> create_alone(const MusterNccl& nccl) {
  NativeOptions options;
  options.exchange = [](const std::string& mine, Deadline) { return std::vector{mine}; };
  options.network = &test_network();
  options.over = nccl_over_transport({.nccl = &nccl, .host = "node7"});
  return create_native(options);
}

TEST(Nccl, NamesTheRankThatHasNoGpu) {
  const auto made = create_alone(fake_nccl_without_devices());
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(made.error().peer, Rank{0});
  EXPECT_THAT(made.error().message,
              AllOf(HasSubstr("rank 0 on node7 has no GPU: no CUDA-capable device is detected"),
                    HasSubstr("communication.engine: native")));
}

TEST(Nccl, HasNoMoreRanksOnAHostThanGpus) {
  static MusterNccl two = fake_nccl();
  two.devices = [](int* count) -> const char* {
    *count = 2;
    return nullptr;
  };
  std::vector<std::thread> threads;
  const auto store = cluster::create_memory_store();
  for (std::int32_t rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      NativeOptions options;
      options.group = {Rank{rank}, 3, Generation{1}};
      options.exchange = exchange_through(*store, options.group, "world");
      options.network = &test_network();
      options.over = nccl_over_transport({.nccl = &two, .host = "node7"});
      const auto made = create_native(options);
      ASSERT_FALSE(made);
      EXPECT_EQ(made.error().peer, Rank{2});
      EXPECT_THAT(made.error().message, HasSubstr("the host has 2, and 2 ranks before it"));
    });
  for (std::thread& thread : threads) thread.join();
}

// What NCCL says of a broken connection does not say whose.
TEST(Nccl, SaysWhatNcclSaysWhereNobodyIsToBlame) {
  static MusterNccl broken = fake_nccl();
  const auto world = create_alone(broken);
  ASSERT_TRUE(world) << world.error().message;
  broken.begin = [](MusterNcclGroup*, const MusterNcclCall*) -> const char* {
    return "unhandled system error";
  };
  float value = 1;
  const Status status = (*world)->submit(AllReduce{view_of(std::span(&value, 1))}, {}).wait();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(status.error().message,
              AllOf(HasSubstr("unhandled system error"), HasSubstr("NCCL_DEBUG=INFO")));
}

TEST(Nccl, ThatIsNotThereIsAnError) {
  const auto loaded = load_nccl("/nowhere/nccl.so");
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(loaded.error().message, HasSubstr("/nowhere/nccl.so"));
}

// Compiled against NCCL, where that is here; a GPU it need not have.
class NcclModule : public ::testing::TestWithParam<const char*> {};

TEST_P(NcclModule, IsLoadedAndSaysWhatItFinds) {
  const auto loaded = load_nccl(GetParam());
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_THAT((*loaded)->library(), HasSubstr("NCCL 2."));
  const auto found = describe(**loaded);
  if (found)
    EXPECT_THAT(*found, HasSubstr("GPU"));
  else
    EXPECT_EQ(found.error().code, ErrorCode::kUnavailable) << found.error().message;
}

std::vector<const char*> nccl_modules() {
  const char* const module = std::getenv("MUSTER_TEST_NCCL");
  return module != nullptr ? std::vector{module} : std::vector<const char*>{};
}
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(NcclModule);
INSTANTIATE_TEST_SUITE_P(Nccl, NcclModule, ::testing::ValuesIn(nccl_modules()));

}  // namespace
}  // namespace muster::comm
