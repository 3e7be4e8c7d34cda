// When buckets of gradients leave: while backward still runs, each as soon as it is full.
#include "muster/parallel/gradient_exchange.h"

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "muster/comm/wrap/forward.h"
#include "muster/comm/wrap/wrappers.h"
#include "muster/parallel/lane_model.h"
#include "muster/parallel/testing/plain_training.h"

namespace muster::parallel {
namespace {

// Notes what was going on when each bucket was handed over.
class Departures final : public comm::Forward {
 public:
  Departures() : Forward(comm::create_loopback(1).front()) {}

  comm::Work submit(comm::Op op, const comm::OpOptions& options) override {
    if (options.label.starts_with("gradients/")) {
      const std::lock_guard lock(mutex_);
      seen_.emplace_back(options.label, now_);
    }
    return inner().submit(std::move(op), options);
  }
  void now(std::string_view what) {
    const std::lock_guard lock(mutex_);
    now_ = what;
  }
  std::vector<std::pair<std::string, std::string>> seen() {
    const std::lock_guard lock(mutex_);
    return seen_;
  }

 protected:
  Result<comm::CommunicatorPtr> wrap(comm::CommunicatorPtr part) override { return part; }

 private:
  std::mutex mutex_;
  std::string now_;
  std::vector<std::pair<std::string, std::string>> seen_;  // label, what was going on
};

TEST(GradientExchange, ABucketLeavesAsSoonAsItIsFull) {
  const auto world = std::make_shared<Departures>();
  const std::vector<std::int64_t> counts{4, 100, 200, 200, 200, 50};
  const BucketSizes sizes{.first_bytes = 512, .bytes = 2048};
  auto exchange =
      GradientExchange::create(world, counts, {.tree = {}, .bucket_sizes = sizes, .op = {}});
  ASSERT_TRUE(exchange) << exchange.error().message;
  (*exchange)->begin();
  const std::vector<float> values(200, 1.0F);
  std::vector<std::size_t> gone;
  for (std::size_t slot = 0; slot < counts.size(); ++slot) {
    (*exchange)->add(0, static_cast<std::int32_t>(slot),
                     std::span(values).first(static_cast<std::size_t>(counts[slot])), 0, 1);
    gone.push_back(world->seen().size());
  }
  EXPECT_EQ(gone, (std::vector<std::size_t>{0, 1, 1, 2, 2, 3}));
  ASSERT_TRUE((*exchange)->finish());
}

TEST(GradientExchange, BucketsLeaveWhileBackwardRuns) {
  const auto world = std::make_shared<Departures>();
  SliceOptions options{.virtual_workers = kSlices, .bucket_sizes = {1 << 10, 1 << 12}};
  options.computing = [&](std::int32_t, std::string_view pass) { world->now(pass); };
  auto strategy = make_strategy(kResNet, world, options);
  const Batch batch(21, comm::LeafRange{0, kSlices}, 1);
  ASSERT_TRUE(strategy->step({.batch = batch.step,
                              .step = Step{1},
                              .learning_rate = 0.05,
                              .flags = {},
                              .before_update = {}}));
  const auto seen = world->seen();
  ASSERT_GE(seen.size(), 3u) << "the model does not fill several buckets";
  for (std::size_t bucket = 0; bucket < seen.size(); ++bucket) {
    EXPECT_EQ(seen[bucket].first, "gradients/" + std::to_string(bucket));
    EXPECT_EQ(seen[bucket].second, "backward of slice 7");
  }
}

}  // namespace
}  // namespace muster::parallel
