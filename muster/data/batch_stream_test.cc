#include "muster/data/batch_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <atomic>
#include <map>
#include <numeric>
#include <thread>

#include "muster/base/share.h"
#include "muster/testing/fake_source.h"

namespace muster::data {
namespace {

using ::testing::HasSubstr;

Pipeline plain(SourcePtr source) { return *Pipeline::create(std::move(source), {}); }

Pipeline augmented(std::int64_t size) {
  return *Pipeline::create(fake_images(size, {1, 5, 4}),
                           {{"image", random_crop(1)},
                            {"image", random_horizontal_flip()},
                            {"image", normalise({0.5f}, {0.25f})}},
                           17);
}

std::unique_ptr<BatchStream> open(Pipeline pipeline, const BatchStreamOptions& options,
                                  const Cursor& start = {}) {
  auto stream = BatchStream::create(std::move(pipeline), options, start, system_clock());
  EXPECT_TRUE(stream) << stream.error().message;
  return stream ? std::move(*stream) : nullptr;
}

StepBatch next_of(BatchStream& stream) {
  auto batch = stream.next();
  EXPECT_TRUE(batch) << batch.error().message;
  EXPECT_TRUE(batch->has_value());
  return std::move(**batch);
}

std::vector<std::int64_t> labels(const SliceBatch& slice) {
  const auto values = slice.field("label").as<std::int64_t>();
  return {values.begin(), values.end()};
}

BatchStreamOptions share_of(BatchStreamOptions options, std::int64_t workers, std::int64_t worker) {
  const Share share = even_share(options.slices, workers, worker);
  options.own.clear();
  for (std::int64_t slice = share.begin; slice < share.end; ++slice)
    options.own.push_back(SliceIndex{static_cast<std::int32_t>(slice)});
  return options;
}

// Labels that `workers` workers together see from `start` until the cursor reaches epoch `until`;
// counted for each epoch.
using Counts = std::map<std::int64_t, std::map<std::int64_t, int>>;  // epoch -> sample -> times

Cursor consume(const Pipeline& pipeline, const BatchStreamOptions& options, std::int64_t workers,
               const Cursor& start, std::int64_t steps, Counts& counts) {
  std::vector<std::unique_ptr<BatchStream>> streams;
  for (std::int64_t i = 0; i < workers; ++i) {
    streams.push_back(open(pipeline, share_of(options, workers, i), start));
  }
  Cursor cursor = start;
  for (std::int64_t step = 0; step < steps; ++step) {
    std::int64_t total = 0;
    for (const auto& stream : streams) {
      const StepBatch batch = next_of(*stream);
      EXPECT_EQ(batch.before, cursor);
      for (const SliceBatch& slice : batch.slices) {
        for (const std::int64_t label : labels(slice)) ++counts[batch.before.epoch][label];
        total += slice.samples;
      }
      if (stream == streams.back()) {
        EXPECT_EQ(total, batch.samples);
        cursor = batch.after;
      }
    }
  }
  return cursor;
}

TEST(BatchStream, EachEpochSeesEverySampleOnceThroughRestartsAtAnyWorkerCount) {
  EXPECT_TRUE(rc::check([] {
    const auto size = *rc::gen::inRange<std::int64_t>(1, 120);
    BatchStreamOptions options;
    options.seed = *rc::gen::arbitrary<std::uint64_t>();
    options.batch = *rc::gen::inRange<std::int64_t>(1, 40);
    options.slices = *rc::gen::inRange<std::int32_t>(1, 9);
    options.threads = *rc::gen::inRange<std::int32_t>(1, 3);
    options.prefetch = *rc::gen::inRange<std::int32_t>(1, 4);
    const Pipeline pipeline = plain(fake_labels(size));
    Counts counts;
    Cursor cursor;
    while (cursor.epoch < 2) {
      const auto workers = *rc::gen::inRange<std::int64_t>(1, options.slices + 1);
      const auto steps = *rc::gen::inRange<std::int64_t>(1, 12);
      cursor = consume(pipeline, options, workers, cursor, steps, counts);
    }
    for (std::int64_t epoch = 0; epoch < cursor.epoch; ++epoch) {
      RC_ASSERT(static_cast<std::int64_t>(counts[epoch].size()) == size);
      for (const auto& [sample, times] : counts[epoch]) RC_ASSERT(times == 1);
    }
  }));
}

// Everything that a slice's batch holds, as bytes.
std::vector<std::byte> content(const SliceBatch& slice) {
  std::vector<std::byte> bytes;
  for (const NamedTensor& field : slice.fields) {
    bytes.insert(bytes.end(), field.tensor.bytes.begin(), field.tensor.bytes.end());
  }
  return bytes;
}

using Contents = std::map<std::pair<std::int64_t, std::int32_t>, std::vector<std::byte>>;

Contents contents(BatchStreamOptions options, std::int64_t workers, std::int64_t steps,
                  const Cursor& start = {}) {
  Contents all;
  for (std::int64_t worker = 0; worker < workers; ++worker) {
    const auto stream = open(augmented(50), share_of(options, workers, worker), start);
    for (std::int64_t step = 0; step < steps; ++step) {
      const StepBatch batch = next_of(*stream);
      for (const SliceBatch& slice : batch.slices) {
        all[{batch.before.samples_seen, to_int(slice.slice)}] = content(slice);
      }
    }
  }
  return all;
}

TEST(BatchStream, SliceBytesDependOnNeitherWorkersNorThreadsNorPrefetchNorStart) {
  BatchStreamOptions options;
  options.batch = 12;
  options.slices = 6;
  const Contents expected = contents(options, 1, 10);
  ASSERT_EQ(expected.size(), 60u);
  for (const std::int64_t workers : {1, 2, 3, 4, 5, 6}) {
    for (const std::int32_t threads : {1, 2, 5}) {
      options.threads = threads;
      options.prefetch = threads == 2 ? 1 : 4;
      EXPECT_EQ(contents(options, workers, 10), expected) << workers << " workers";
    }
  }
  const StepPlan plan({50, 12, 6});
  Contents tail = contents(options, 2, 3, plan.at(Step{7}));
  for (const auto& [place, bytes] : tail) EXPECT_EQ(bytes, expected.at(place));
}

TEST(BatchStream, LaysFieldsOutAlignedWithTheBatchAxisFirst) {
  BatchStreamOptions options;
  options.batch = 7;
  options.slices = 2;
  const auto stream = open(augmented(20), share_of(options, 1, 0));
  const StepBatch batch = next_of(*stream);
  ASSERT_EQ(batch.slices.size(), 2u);
  EXPECT_EQ(batch.slices[0].samples, 4);
  EXPECT_EQ(batch.slices[1].samples, 3);
  EXPECT_EQ(batch.slices[1].field("image").shape, (Shape{3, 1, 5, 4}));
  EXPECT_EQ(batch.slices[1].field("image").dtype, DType::kF32);
  EXPECT_EQ(batch.slices[1].field("label").shape, (Shape{3}));
  for (const SliceBatch& slice : batch.slices) {
    for (const NamedTensor& field : slice.fields) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(field.tensor.bytes.data()) % 64, 0u);
      EXPECT_EQ(static_cast<std::int64_t>(field.tensor.bytes.size()),
                field.tensor.count() * static_cast<std::int64_t>(size_of(field.tensor.dtype)));
    }
  }
}

TEST(BatchStream, GivesEmptySlicesWhereThereAreFewerSamplesThanSlices) {
  BatchStreamOptions options;
  options.batch = 8;
  options.slices = 8;
  const auto stream = open(plain(fake_labels(3)), share_of(options, 1, 0));
  const StepBatch batch = next_of(*stream);
  EXPECT_EQ(batch.samples, 3);
  ASSERT_EQ(batch.slices.size(), 8u);
  EXPECT_EQ(batch.slices[2].samples, 1);
  EXPECT_EQ(batch.slices[3].samples, 0);
  EXPECT_EQ(batch.slices[3].field("label").shape, (Shape{0}));
  EXPECT_EQ(batch.after, (Cursor{1, 0, 3}));
}

TEST(BatchStream, AnEvaluationPassEndsAfterEverySampleOnce) {
  BatchStreamOptions options;
  options.batch = 4;
  options.slices = 3;
  options.shuffle = true;
  options = evaluation_options(options);
  std::vector<std::int64_t> seen;
  for (std::int64_t worker = 0; worker < 2; ++worker) {
    const auto stream = open(plain(fake_labels(10)), share_of(options, 2, worker));
    for (int step = 0; step < 3; ++step) {
      for (const SliceBatch& slice : next_of(*stream).slices) {
        for (const std::int64_t label : labels(slice)) seen.push_back(label);
      }
    }
    const auto end = stream->next();
    ASSERT_TRUE(end);
    EXPECT_FALSE(end->has_value());
    EXPECT_FALSE(stream->next()->has_value());
  }
  std::ranges::sort(seen);
  std::vector<std::int64_t> all(10);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(seen, all);
}

TEST(BatchStream, AWorkerWithoutSlicesStillFollowsTheSteps) {
  BatchStreamOptions options = evaluation_options({});
  options.batch = 4;
  options.own.clear();
  const auto stream = open(plain(fake_labels(6)), options);
  EXPECT_EQ(next_of(*stream).after.position, 4);
  EXPECT_EQ(next_of(*stream).after.epoch, 1);
  EXPECT_FALSE(stream->next()->has_value());
}

TEST(BatchStream, NamesTheSampleThatCannotBeRead) {
  BatchStreamOptions options = evaluation_options({});
  options.batch = 4;
  options.threads = 3;
  const auto stream = open(plain(fake_labels(20, 9)), options);
  EXPECT_TRUE(stream->next());
  EXPECT_TRUE(stream->next());  // the steps before it are good
  const auto broken = stream->next();
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(broken.error().message, HasSubstr("sample 9 (epoch 0, position 9)"));
  EXPECT_THAT(broken.error().message, HasSubstr("[test/source] unreadable"));
  EXPECT_EQ(stream->next().error(), broken.error());
}

TEST(BatchStream, RefusesAnEmptyDataSetAndProgressOfAnother) {
  const auto empty = BatchStream::create(plain(fake_labels(0)), {}, {}, system_clock());
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(empty.error().message, HasSubstr("no samples"));
  const auto beyond = BatchStream::create(plain(fake_labels(10)), {}, {0, 10, 10}, system_clock());
  ASSERT_FALSE(beyond);
  EXPECT_THAT(beyond.error().message, HasSubstr("position 10 of 10 samples"));
}

TEST(BatchStream, RefusesOptionsOutOfRange) {
  const auto refused = [](auto change) {
    BatchStreamOptions options;
    change(options);
    return !BatchStream::create(plain(fake_labels(10)), options, {}, system_clock());
  };
  EXPECT_FALSE(refused([](auto&) {}));
  EXPECT_TRUE(refused([](auto& options) { options.batch = 0; }));
  EXPECT_TRUE(refused([](auto& options) { options.slices = 0; }));
  EXPECT_TRUE(refused([](auto& options) { options.own = {SliceIndex{1}}; }));
  EXPECT_TRUE(refused([](auto& options) { options.own = {SliceIndex{0}, SliceIndex{0}}; }));
  EXPECT_TRUE(refused([](auto& options) { options.threads = 0; }));
  EXPECT_TRUE(refused([](auto& options) { options.prefetch = 0; }));
}

// A source that counts reads and, where told, holds each of them until it may go on.
class SlowSource final : public Source {
 public:
  std::int64_t size() const noexcept override { return 1'000'000; }
  const std::vector<FieldSpec>& fields() const noexcept override { return fields_; }
  Status read(std::int64_t index, std::span<const TensorView> into) const override {
    ++reads;
    while (held) std::this_thread::yield();
    into[0].as<std::int64_t>()[0] = index;
    return ok();
  }
  mutable std::atomic<std::int64_t> reads{0};
  std::atomic<bool> held{false};

 private:
  std::vector<FieldSpec> fields_{{"label", DType::kI64, {}}};
};

TEST(BatchStream, LoadsNoFurtherAheadThanAllowed) {
  const auto source = std::make_shared<SlowSource>();
  BatchStreamOptions options;
  options.batch = 10;
  options.prefetch = 3;
  options.threads = 2;
  const auto stream = open(plain(source), options);
  for (std::int64_t step = 1; step <= 20; ++step) {
    next_of(*stream);
    EXPECT_LE(source->reads, (step + options.prefetch) * options.batch);
  }
}

// So many samples, of no bytes, that loading one batch would take years.
class EndlessSource final : public Source {
 public:
  std::int64_t size() const noexcept override { return std::int64_t{1} << 50; }
  const std::vector<FieldSpec>& fields() const noexcept override { return fields_; }
  Status read(std::int64_t, std::span<const TensorView>) const override {
    started = true;
    return ok();
  }
  mutable std::atomic<bool> started{false};

 private:
  std::vector<FieldSpec> fields_{{"nothing", DType::kU8, {0}}};
};

TEST(BatchStream, StopsWithinAStepWhenDestroyed) {
  const auto source = std::make_shared<EndlessSource>();
  BatchStreamOptions options;
  options.batch = source->size();
  options.threads = 2;
  auto stream = open(plain(source), options);
  while (!source->started) std::this_thread::yield();
  stream.reset();
}

TEST(BatchStream, GivesUpOnABatchThatDoesNotCome) {
  const auto source = std::make_shared<SlowSource>();
  source->held = true;
  BatchStreamOptions options;
  options.timeout = std::chrono::milliseconds(20);
  const auto stream = open(plain(source), options, {2, 5, 100});
  const auto late = stream->next();
  source->held = false;
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kTimeout);
  EXPECT_THAT(late.error().message, HasSubstr("epoch 2, position 5"));
}

// As on a file server that never answers: the error gets out, and whatever comes of the reads later
// harms nobody.
TEST(BatchStream, LeavesReadsThatMayNeverEnd) {
  const auto source = std::make_shared<SlowSource>();
  source->held = true;
  BatchStreamOptions options;
  options.threads = 2;
  options.timeout = std::chrono::milliseconds(20);
  options.stop_timeout = std::chrono::milliseconds(20);
  auto stream = open(plain(source), options);
  while (source->reads < options.threads) std::this_thread::yield();
  const auto late = stream->next();
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kTimeout);
  stream.reset();
  EXPECT_GT(source.use_count(), 1) << "of the threads that read it";
  source->held = false;
  while (source.use_count() > 1) std::this_thread::yield();
  EXPECT_EQ(source->reads, options.threads) << "none began another";
}

TEST(BatchStream, ABatchMayOutliveItsStream) {
  auto stream = open(augmented(20), {});
  const StepBatch batch = next_of(*stream);
  const std::vector<std::byte> before = content(batch.slices[0]);
  stream.reset();
  EXPECT_EQ(content(batch.slices[0]), before);
}

}  // namespace
}  // namespace muster::data
