#include "muster/parallel/data_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <thread>

#include "muster/comm/backend/loopback/loopback.h"
#include "muster/models/create.h"
#include "muster/parallel/lane_model.h"
#include "muster/parallel/testing/plain_training.h"

namespace muster::parallel {
namespace {

class SameBits : public ::testing::TestWithParam<models::ModelSpec> {};

TEST_P(SameBits, AtAnyNumberOfRanksAndLanes) {
  SliceOptions options{.seed = 3, .bucket_sizes = {1 << 10, 1 << 12}};
  const std::string expected = train_together(GetParam(), 1, options).front().hash;
  for (const std::int32_t size : {1, 2, 3, 5, 7, 8}) {
    for (const std::int32_t lanes : {1, 2}) {
      options.lanes = lanes;
      for (const Outcome& outcome : train_together(GetParam(), size, options)) {
        EXPECT_EQ(outcome.hash, expected) << size << " ranks, " << lanes << " lanes";
      }
    }
  }
}

// Two steps by three ranks; in the third one of them dies before it computes. The others keep what
// they have summed, compute what it would have, and go on by themselves.
std::string train_through_a_death(const models::ModelSpec& spec, std::int32_t victim,
                                  SliceOptions options) {
  options.elastic = true;
  const auto before = comm::create_loopback(3);
  const auto after = comm::create_loopback(2, Generation{2});
  const comm::LeafOwners owners = comm::even_owners(kSlices, 3);
  std::vector<std::string> hashes(2);
  std::barrier all_have_two_steps(3);
  std::vector<std::jthread> ranks;
  for (std::int32_t r = 0; r < 3; ++r) {
    ranks.emplace_back([&, r] {
      auto strategy = make_strategy(spec, before[static_cast<std::size_t>(r)], options);
      const auto run = [&](std::int64_t step, const std::vector<std::int32_t>& slices,
                           bool finishes) {
        const Batch batch(step == 4 ? 5 : 21, slices, static_cast<std::uint64_t>(step),
                          content_of(spec));
        return strategy->step({.batch = batch.step,
                               .finishes = finishes,
                               .step = Step{step},
                               .learning_rate = 0.05,
                               .flags = {},
                               .before_update = {}});
      };
      const auto even = [](std::int32_t size, std::int32_t rank) {
        return Batch::slices_of(comm::even_share(kSlices, size, rank));
      };
      ASSERT_TRUE(run(1, even(3, r), false) && run(2, even(3, r), false));
      all_have_two_steps.arrive_and_wait();
      if (r == victim) {
        return before[static_cast<std::size_t>(r)]->abort(fail(ErrorCode::kPeerLost, "died"));
      }
      ASSERT_FALSE(run(3, even(3, r), false));
      ASSERT_EQ(strategy->kept(), Step{3});
      std::vector<Rank> now;
      for (std::int32_t rank = 0; rank < 3; ++rank)
        now.push_back(rank == victim ? kNoRank : Rank{rank > victim ? rank - 1 : rank});
      const Rank me = now[static_cast<std::size_t>(r)];
      const auto mine = static_cast<std::size_t>(to_int(me));
      const comm::LeafOwners inherited = comm::inherit_leaves(owners, now);
      std::vector<std::int32_t> added;
      for (std::int32_t slice = 0; slice < kSlices; ++slice) {
        const auto i = static_cast<std::size_t>(slice);
        if (owners[i] == Rank{victim} && inherited[i] == me) added.push_back(slice);
      }
      ASSERT_TRUE(strategy->enter(after[mine], inherited));
      ASSERT_TRUE(run(3, added, true));
      ASSERT_TRUE(strategy->enter(after[mine], comm::even_owners(kSlices, 2)));
      ASSERT_TRUE(run(4, even(2, to_int(me)), false));
      hashes[mine] = hash_of(*strategy);
    });
  }
  ranks.clear();
  EXPECT_EQ(hashes[0], hashes[1]);
  return hashes[0];
}

TEST_P(SameBits, WhicheverRankDiesInMidStep) {
  SliceOptions options{.seed = 3, .bucket_sizes = {1 << 10, 1 << 12}};
  const std::string expected = train_together(GetParam(), 1, options).front().hash;
  for (std::int32_t victim = 0; victim < 3; ++victim) {
    for (const std::int32_t lanes : {1, 2}) {
      options.lanes = lanes;
      EXPECT_EQ(train_through_a_death(GetParam(), victim, options), expected)
          << "rank " << victim << ", " << lanes << " lanes";
    }
  }
}

TEST_P(SameBits, DependOnTheSeed) {
  SliceOptions options{.seed = 3};
  const std::string one = train_together(GetParam(), 2, options).front().hash;
  options.seed = 4;  // of dropout here; the weights begin alike
  EXPECT_NE(train_together(GetParam(), 2, options).front().hash, one);
}

// Without dropout and batch norm, which belong to the slice.
TEST(DataParallel, FastModeComesToTheSameLossUpToRounding) {
  const models::ModelSpec spec = models::MlpSpec{.inputs = kImage * kImage, .hidden = {32}};
  const double ordered = train_together(spec, 1, {.ordered = true}).front().loss;
  for (const std::int32_t size : {1, 2, 3}) {
    EXPECT_NEAR(train_together(spec, size, {.ordered = false, .lanes = 2}).front().loss, ordered,
                1e-5);
  }
}

// Stands still at the given question for the time, until it is let go.
class StuckClock final : public Clock {
 public:
  explicit StuckClock(std::int64_t at) : at_(at) {}
  TimePoint now() const noexcept override {
    std::unique_lock lock(mutex_);
    if (++asked_ == at_) free_.wait_for(lock, std::chrono::seconds(30), [this] { return let_go_; });
    return system_clock().now();
  }
  WallTime wall() const noexcept override { return system_clock().wall(); }
  bool wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& condition,
                  TimePoint until) override {
    return system_clock().wait_until(lock, condition, until);
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    let_go_ = true;
    free_.notify_all();
  }

 private:
  const std::int64_t at_;
  mutable std::mutex mutex_;
  mutable std::condition_variable free_;
  mutable std::int64_t asked_ = 0;
  bool let_go_ = false;
};

// Rank 1 is stuck in its first slice until rank 0 has taken two others off it.
TEST_P(SameBits, WhoeverComputesTheSlicesOfALateRank) {
  const std::string expected =
      train_together(GetParam(), 1, {.virtual_workers = kSlices}).front().hash;
  const auto ranks = comm::create_loopback(2, Generation{1});
  StuckClock clock(3);
  std::vector<std::int32_t> backups(2);
  std::vector<std::string> hashes(2);
  const auto train_rank = [&](std::int32_t rank) {
    const SliceOptions options{.virtual_workers = kSlices, .backup = true};
    auto strategy = make_strategy(GetParam(), ranks[static_cast<std::size_t>(rank)], options,
                                  comm::even_owners(kSlices, 2),
                                  rank == 1 ? static_cast<Clock&>(clock) : system_clock());
    for (std::int64_t step = 1; step <= 4; ++step) {
      const auto seed = static_cast<std::uint64_t>(step);
      const std::int64_t samples = step == 4 ? 5 : 21;
      const Batch::Content content = content_of(GetParam());
      const Batch batch(samples, slices_of(comm::even_owners(kSlices, 2), Rank{rank}), seed,
                        content);
      std::vector<std::unique_ptr<Batch>> lent;
      const auto load = [&](SliceIndex slice) -> Result<data::StepBatch> {
        lent.push_back(std::make_unique<Batch>(samples, std::vector{to_int(slice)}, seed, content));
        if (lent.size() == 2) clock.let_go();
        return lent.back()->step;
      };
      const auto report = strategy->step({.batch = batch.step,
                                          .step = Step{step},
                                          .learning_rate = 0.05,
                                          .flags = {},
                                          .before_update = {},
                                          .patience = {},
                                          .load_slice = load});
      backups[static_cast<std::size_t>(rank)] += report.value().backups;
    }
    hashes[static_cast<std::size_t>(rank)] = hash_of(*strategy);
  };
  {
    const std::jthread other([&] { train_rank(1); });
    train_rank(0);
  }
  EXPECT_EQ(hashes, (std::vector{expected, expected}));
  EXPECT_GE(backups[1], 1);
}

// Rank 1 joins without slices, and would have all the time to compute those of rank 0.
TEST_P(SameBits, WhileWhoIsBehindComputesForNobody) {
  const std::string expected =
      train_together(GetParam(), 1, {.virtual_workers = kSlices}).front().hash;
  const auto ranks = comm::create_loopback(2, Generation{1});
  std::vector<std::string> hashes(2);
  const auto train_rank = [&](std::int32_t rank) {
    const bool slow = rank == 0;
    const SliceOptions options{.virtual_workers = kSlices,
                               .backup = true,
                               .computing = [&](std::int32_t, std::string_view) {
                                 if (slow)
                                   std::this_thread::sleep_for(std::chrono::milliseconds(2));
                               }};
    const comm::LeafOwners owners(kSlices, Rank{0});
    auto strategy =
        make_strategy(GetParam(), ranks[static_cast<std::size_t>(rank)], options, owners);
    if (rank == 1) strategy->fall_behind();
    for (std::int64_t step = 1; step <= 4; ++step) {
      const Batch batch(step == 4 ? 5 : 21, slices_of(owners, Rank{rank}),
                        static_cast<std::uint64_t>(step), content_of(GetParam()));
      const auto load = [&](SliceIndex slice) -> Result<data::StepBatch> {
        ADD_FAILURE() << "rank " << rank << " computes slice " << to_int(slice);
        return fail(ErrorCode::kInternal, "not wanted");
      };
      ASSERT_TRUE(strategy->step({.batch = batch.step,
                                  .step = Step{step},
                                  .learning_rate = 0.05,
                                  .flags = {},
                                  .before_update = {},
                                  .patience = {},
                                  .load_slice = load}));
    }
    if (rank == 1) {
      ASSERT_TRUE(strategy->catch_up());
    }
    hashes[static_cast<std::size_t>(rank)] = hash_of(*strategy);
  };
  {
    const std::jthread other([&] { train_rank(1); });
    train_rank(0);
  }
  EXPECT_EQ(hashes, (std::vector{expected, expected}));
}

INSTANTIATE_TEST_SUITE_P(Models, SameBits, ::testing::Values(kMlp, kResNet, kMoe),
                         [](const auto& model) {
                           return std::string(models::family_of(model.param));
                         });

TEST(DataParallel, MicroBatchesGiveTheSameBitsAtAnySize) {
  SliceOptions options{.micro_batch_size = 2};
  const std::string expected = train_together(kMlp, 1, options).front().hash;
  options.lanes = 2;
  EXPECT_EQ(train_together(kMlp, 3, options).back().hash, expected);
}

TEST(DataParallel, EvaluationsTakeThePlainLoss) {
  const auto strategy = make_strategy(kMlp, comm::create_loopback(1).front(), {});
  const Batch batch(21, comm::LeafRange{0, kSlices}, 1);
  const auto evaluated = [&] {
    std::vector<EvaluationTotals> by_slice(kSlices);
    EXPECT_TRUE(strategy->evaluate(batch.step, by_slice));
    return strategy->combine(by_slice).value().loss;
  };
  const double expected = evaluated();
  strategy->model().train_with([](const at::Tensor& logits, const at::Tensor& target) {
    return models::cross_entropy_sum(logits, target, 0.2);
  });
  EXPECT_EQ(evaluated(), expected);
}

// Gradients that travel in 16 bits.
class ReducePrecision : public ::testing::TestWithParam<DType> {
 protected:
  static SliceOptions options() {
    return {.seed = 3, .bucket_sizes = {1 << 10, 1 << 12, false, GetParam()}};
  }
};

TEST_P(ReducePrecision, SameBitsAtAnyNumberOfRanksAndLanes) {
  for (const models::ModelSpec& spec : {kMlp, kResNet}) {
    SliceOptions options{.seed = 3, .bucket_sizes = {1 << 10, 1 << 12}};
    const Outcome full = train_together(spec, 1, options).front();
    options = ReducePrecision::options();
    const Outcome one = train_together(spec, 1, options).front();
    EXPECT_NE(one.hash, full.hash);
    EXPECT_NEAR(one.loss, full.loss, 0.02 * full.loss);
    for (const std::int32_t size : {2, 3, 5}) {
      options.lanes = size == 5 ? 1 : 2;
      for (const Outcome& outcome : train_together(spec, size, options))
        EXPECT_EQ(outcome.hash, one.hash) << size << " ranks, " << models::family_of(spec);
    }
    for (std::int32_t victim = 0; victim < 3; ++victim)
      EXPECT_EQ(train_through_a_death(spec, victim, options), one.hash) << "without " << victim;
  }
}

TEST_P(ReducePrecision, FastModeComesToAboutTheSameLoss) {
  SliceOptions narrow = ReducePrecision::options();
  narrow.ordered = false;
  narrow.lanes = 2;
  SliceOptions wide = narrow;
  wide.bucket_sizes.dtype = DType::kF32;
  for (const std::int32_t size : {1, 3}) {
    const double expected = train_together(kMlp, size, wide).front().loss;
    const double loss = train_together(kMlp, size, narrow).front().loss;
    EXPECT_NE(loss, expected) << size << " ranks";
    EXPECT_NEAR(loss, expected, 0.02 * expected) << size << " ranks";
  }
}

// All but the first slot, which carries losses, flags and statistics.
TEST_P(ReducePrecision, HalvesTheBytes) {
  const auto bytes = [](const SliceOptions& options) {
    auto strategy = make_strategy(kMlp, comm::create_loopback(1).front(), options);
    const Batch batch(16, comm::LeafRange{0, kSlices}, 1);
    const auto report = strategy->step({.batch = batch.step,
                                        .step = Step{1},
                                        .learning_rate = 0.1,
                                        .flags = {},
                                        .before_update = {}});
    return report.value().bytes_reduced;
  };
  SliceOptions wide = options();
  wide.bucket_sizes.dtype = DType::kF32;
  const auto model = models::create_model(kMlp).value();
  const BucketLayout layout = plan_buckets(LaneModel::slot_counts(*model), options().bucket_sizes);
  const auto first = static_cast<std::uint64_t>(layout.sizes.front()) * sizeof(float);
  EXPECT_EQ(bytes(options()) - first, (bytes(wide) - first) / 2);
}

INSTANTIATE_TEST_SUITE_P(Of16Bits, ReducePrecision, ::testing::Values(DType::kBF16, DType::kF16));

TEST(DataParallel, FlagsOfOneRankReachAll) {
  const auto communicators = comm::create_loopback(3);
  std::vector<std::jthread> ranks;
  std::vector<Flags> seen(3);
  for (std::size_t r = 0; r < 3; ++r) {
    ranks.emplace_back([&, r] {
      auto strategy = make_strategy(kMlp, communicators[r], {});
      const Batch batch(16, comm::even_share(kSlices, 3, static_cast<std::int32_t>(r)), 1);
      Flags mine;
      if (r == 1) mine.set(Flag::kStop);
      seen[r] = strategy
                    ->step({.batch = batch.step,
                            .step = Step{1},
                            .learning_rate = 0.1,
                            .flags = mine,
                            .before_update = {}})
                    .value()
                    .flags;
    });
  }
  ranks.clear();
  for (const Flags& flags : seen) {
    EXPECT_TRUE(flags.has(Flag::kStop));
    EXPECT_FALSE(flags.has(Flag::kCheckpoint));
  }
}

TEST(DataParallel, ASumThatLacksASliceIsRefusedAndNothingIsUpdated) {
  const auto communicators = comm::create_loopback(1);
  auto strategy = make_strategy(kMlp, communicators[0], {});
  Batch batch(16, comm::LeafRange{0, kSlices}, 1);
  for (data::SliceBatch& slice : batch.step.slices) {
    slice.mark = data::slice_mark(0, slice.slice, slice.positions);
    batch.step.roll += slice.mark;
  }
  const auto run = [&] {
    return strategy->step({.batch = batch.step,
                           .step = Step{1},
                           .learning_rate = 0.1,
                           .flags = {},
                           .before_update = {}});
  };
  ASSERT_TRUE(run());
  const std::string before = hash_of(*strategy);
  batch.step.slices.back().mark = batch.step.slices.front().mark;  // one twice, one not at all
  const auto report = run();
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message.find("exactly once"), std::string::npos);
  EXPECT_EQ(hash_of(*strategy), before);
}

TEST(DataParallel, ANanIsNamedAndNothingIsUpdated) {
  const auto communicators = comm::create_loopback(1);
  auto strategy = make_strategy(kMlp, communicators[0], {});
  Batch batch(16, comm::LeafRange{0, kSlices}, 1);
  const std::string before = hash_of(*strategy);
  batch.tensors[0].fill_(std::numeric_limits<float>::quiet_NaN());
  const auto report = strategy->step({.batch = batch.step,
                                      .step = Step{7},
                                      .learning_rate = 0.25,
                                      .flags = {},
                                      .before_update = {}});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kNumeric);
  EXPECT_THAT(report.error().message, ::testing::AllOf(::testing::HasSubstr("step 7"),
                                                       ::testing::HasSubstr("learning rate 0.25")));
  EXPECT_EQ(hash_of(*strategy), before);
}

// What three ranks say of a step in which those of `poisoned` have samples that are not numbers.
std::vector<Error> errors_with(const std::vector<std::int32_t>& poisoned) {
  const auto communicators = comm::create_loopback(3);
  const comm::LeafOwners owners = comm::even_owners(kSlices, 3);
  std::vector<Error> errors(3);
  std::vector<std::jthread> ranks;
  for (std::int32_t rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto own = communicators[static_cast<std::size_t>(rank)];
      auto strategy = make_strategy(kMlp, own, {.elastic = true}, owners);
      Batch batch(16, slices_of(owners, Rank{rank}), 1);
      if (std::ranges::count(poisoned, rank) > 0)
        batch.tensors[0].fill_(std::numeric_limits<float>::quiet_NaN());
      const auto report = strategy->step({.batch = batch.step,
                                          .step = Step{7},
                                          .learning_rate = 0.25,
                                          .flags = {},
                                          .before_update = {}});
      if (!report) errors[static_cast<std::size_t>(rank)] = report.error();
    });
  }
  ranks.clear();
  return errors;
}

TEST(DataParallel, ANanIsLaidToTheRankThatItComesFrom) {
  for (std::int32_t source = 0; source < 3; ++source) {
    const auto errors = errors_with({source});
    for (std::int32_t rank = 0; rank < 3; ++rank) {
      const Error& error = errors[static_cast<std::size_t>(rank)];
      EXPECT_EQ(error.code, ErrorCode::kNumeric) << error.message;
      EXPECT_EQ(error.peer, rank == source ? kNoRank : Rank{source}) << error.message;
      const std::string told = rank == source ? "this worker's part of the sum is not finite"
                                              : fmt::format("it comes from rank {}", source);
      EXPECT_THAT(error.message, ::testing::HasSubstr(told));
    }
  }
}

TEST(DataParallel, ANanOfAllIsLaidToNobody) {
  for (const Error& error : errors_with({0, 1, 2})) {
    EXPECT_EQ(error.peer, kNoRank);
    EXPECT_THAT(error.message, ::testing::HasSubstr("it is so on every worker"));
  }
}

// Slices dealt in an odd way; one rank computes none and only follows.
TEST_P(SameBits, HoweverSlicesAreDealt) {
  SliceOptions options{.seed = 3, .bucket_sizes = {1 << 10, 1 << 12}};
  const std::string expected = train_together(GetParam(), 1, options).front().hash;
  for (const std::vector<std::int32_t>& counts :
       {std::vector{5, 3, 0}, {1, 0, 7}, {0, 0, 8}, {2, 5, 1}}) {
    for (const Outcome& outcome : train_dealt(GetParam(), counts, options)) {
      EXPECT_EQ(outcome.hash, expected) << ::testing::PrintToString(counts);
    }
  }
}

TEST_P(SameBits, AfterAWarmUp) {
  const SliceOptions options{.lanes = 2, .seed = 3, .bucket_sizes = {1 << 10, 1 << 12}};
  const std::string expected = train_together(GetParam(), 1, options).front().hash;
  const auto communicators = comm::create_loopback(1);
  auto strategy = make_strategy(GetParam(), communicators[0], options);
  for (std::int64_t step = 1; step <= 4; ++step) {
    const Batch batch(step == 4 ? 5 : 21, Batch::slices_of({0, kSlices}),
                      static_cast<std::uint64_t>(step), content_of(GetParam()));
    ASSERT_TRUE(strategy->warm_up(batch.step));
    ASSERT_TRUE(strategy->step({.batch = batch.step,
                                .step = Step{step},
                                .learning_rate = 0.05,
                                .flags = {},
                                .before_update = {}}));
  }
  EXPECT_EQ(hash_of(*strategy), expected);
}

TEST(DataParallel, InFastModeARankWithoutSlicesGetsTheSums) {
  const models::ModelSpec spec = models::MlpSpec{.inputs = kImage * kImage, .hidden = {32}};
  const auto outcomes = train_dealt(spec, {5, 0, 3}, {.ordered = false, .lanes = 2});
  EXPECT_EQ(outcomes[1].hash, outcomes[0].hash);
  EXPECT_NEAR(outcomes[1].loss, train_together(spec, 1, {.ordered = true}).front().loss, 1e-5);
}

}  // namespace
}  // namespace muster::parallel
