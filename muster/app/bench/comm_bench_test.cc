#include "muster/app/bench/comm_bench.h"

#include <gtest/gtest.h>

#include <thread>

#include "muster/app/bench/test_values.h"
#include "muster/app/bench/timed_operation.h"
#include "muster/base/testing/sanitized.h"
#include "muster/comm/backend/loopback/loopback.h"
#include "muster/comm/wrap/forward.h"

namespace muster::app {
namespace {

CommBench short_bench() {
  return {.operations = {std::begin(kAllCollectives), std::end(kAllCollectives)},
          .sizes = {1, 8, 1000, 65'540},
          .time = std::chrono::microseconds(100)};
}

struct BenchOfAll {
  std::vector<Status> ends;
  CommSetting setting;
  std::vector<CommTiming> timings;
};

BenchOfAll bench_on(const std::vector<std::shared_ptr<comm::Communicator>>& ranks,
                    const CommBench& bench) {
  BenchOfAll all{std::vector<Status>(ranks.size()), {}, {}};
  const CommWatch watch{[&](const CommSetting& setting) { all.setting = setting; },
                        [&](const CommTiming& timing) { all.timings.push_back(timing); }};
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    threads.emplace_back(
        [&, rank] { all.ends[rank] = bench_comm(World(ranks[rank]), bench, watch); });
  threads.clear();
  return all;
}

TEST(CommBench, EveryCollectiveIsRightAtEverySizeOfWorld) {
  for (const std::int32_t size : {1, 2, 3, 5, 8}) {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
      if (kSanitized && size > 2 && dtype != DType::kF32) continue;
      CommBench bench = short_bench();
      bench.dtype = dtype;
      bench.foreign = size % 2 == 1;
      const BenchOfAll all = bench_on(comm::create_loopback(size), bench);
      for (const Status& end : all.ends) ASSERT_TRUE(end) << end.error().message;
      EXPECT_EQ(all.setting.ranks, size);
      EXPECT_EQ(all.setting.hosts, 1);
      ASSERT_EQ(all.timings.size(), 5 * 4U);
      for (const CommTiming& timing : all.timings) {
        EXPECT_GE(timing.repetitions, 5);
        EXPECT_LE(timing.median, timing.late);
        EXPECT_EQ(timing.limit > Duration{0}, size > 1);
      }
    }
  }
}

// Changes one element of what the last all-gather of this size has brought.
class Wrong final : public comm::Forward {
 public:
  using Forward::Forward;
  comm::Work submit(comm::Op op, const comm::OpOptions& options) override {
    const comm::Work work = inner().submit(op, options);
    const auto* gather = std::get_if<comm::AllGather>(&op);
    if (gather == nullptr || options.label != "bench/all_gather") return work;
    const Status done = work.wait();
    put(gather->output, 2, get(gather->output, 2) + 1);
    return comm::Work::ended(done);
  }

 private:
  Result<std::shared_ptr<comm::Communicator>> wrap(
      std::shared_ptr<comm::Communicator> part) override {
    return part;
  }
};

TEST(CommBench, AWrongElementEndsItOnAllRanks) {
  auto ranks = comm::create_loopback(3);
  ranks[1] = std::make_shared<Wrong>(ranks[1]);
  const BenchOfAll all = bench_on(ranks, short_bench());
  EXPECT_EQ(all.ends[1].error().message,
            "[bench/comm] all_gather of 12 bytes on rank 1 of 3: element 2 is 63 instead of 62; "
            "please report it");
  for (const std::size_t rank : {0U, 2U})
    EXPECT_NE(all.ends[rank].error().message.find("was wrong on 1 other rank"), std::string::npos);
}

TEST(CommBench, TestValuesShowWhatIsMissingAndMisplaced) {
  for (const std::int32_t ranks : {1, 3, 100}) {
    for (std::int64_t i = 0; i < 300; ++i) {
      double sum = 0;
      for (std::int32_t rank = 0; rank < ranks; ++rank) sum += summand(rank, ranks, i);
      EXPECT_EQ(sum, sum_at(i));
      EXPECT_NE(sum_at(i), sum_at(i + 1));
    }
  }
  EXPECT_NE(word(0, 1, 5), word(1, 0, 5));
}

TEST(CommBench, BytesMovedAreThoseOfTheBestAlgorithms) {
  std::vector<std::byte> memory(8'192);
  const BenchBuffers buffers{std::span(memory).first(4'096), std::span(memory).last(4'096)};
  const auto timed = [&](Collective collective) {
    return TimedOperation(collective, 4'096, DType::kF32, {Rank{1}, 4}, buffers);
  };
  EXPECT_EQ(timed(Collective::kAllReduce).bytes_to_send(), 6'144U);
  EXPECT_EQ(timed(Collective::kReduceScatter).bytes_to_send(), 3'072U);
  EXPECT_EQ(timed(Collective::kReduceScatter).bytes_to_copy(), 2'560U);
  EXPECT_EQ(timed(Collective::kAllGather).bytes_to_copy(), 4'096U);
  EXPECT_EQ(timed(Collective::kBroadcast).bytes_to_send(), 4'096U);
}

TEST(CommBench, ItsTextIsReadBack) {
  CommBench bench = short_bench();
  bench.dtype = DType::kBF16;
  bench.algorithm = comm::Algorithm::kRing;
  bench.transport = comm::NativeTransport::kTcp;
  bench.foreign = true;
  const auto read = comm_bench_from(to_text(bench));
  ASSERT_TRUE(read);
  EXPECT_EQ(to_text(*read), to_text(bench));
  EXPECT_EQ(read->sizes, bench.sizes);
  EXPECT_EQ(read->time, bench.time);
  EXPECT_EQ(comm_bench_from("{}").error().code, ErrorCode::kInvalid);
}

}  // namespace
}  // namespace muster::app
