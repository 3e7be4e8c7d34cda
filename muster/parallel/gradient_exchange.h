#pragma once
// The gradients of one worker on their way to everybody's sum: buckets in the communicator's own
// memory, summed over the worker's units as they are computed and over the workers as soon as a
// bucket is full, while backward still runs. Every rank submits the buckets in the same order.
// Those of 16 bits (BucketSizes::dtype) are summed in f32 memory of the worker's own, as numbers of
// their type, and only travel in 16 bits.
//
// Threads: add() from several lanes at once, each unit by one lane; everything else by one thread.

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "muster/base/result.h"
#include "muster/comm/communicator.h"
#include "muster/parallel/bucket_layout.h"
#include "muster/parallel/gradient_sink.h"
#include "muster/parallel/tree_accumulator.h"

namespace muster::parallel {

struct ExchangeOptions {
  std::shared_ptr<const comm::SumTree> tree;  // none: fast mode, any order
  std::int32_t units = 1;                     // of this worker in fast mode; 0: it only listens
  BucketSizes bucket_sizes{};
  comm::OpOptions op;
  bool keeps = false;  // this worker's own sums of a step, to finish it from after a failure
  // By bucket: of which elements a rank gets the sum; none: of all. Empty: so for all buckets.
  std::vector<std::shared_ptr<const comm::Shards>> shards = {};
};

// What one worker had summed of a step when it handed its buckets over, which the reduction between
// workers destroys: at most one gradient per subtree.
struct KeptSums {
  std::vector<comm::LeafRange> parts;
  std::vector<std::vector<float>> buckets;  // [parts, floats of the bucket]
};

class GradientExchange final : public GradientSink {
 public:
  // `counts`: floats of each slot, in the order in which backward finishes them. Collective.
  static Result<std::unique_ptr<GradientExchange>> create(
      std::shared_ptr<comm::Communicator> communicator, std::span<const std::int64_t> counts,
      const ExchangeOptions& options);
  ~GradientExchange() override;

  // A new step; a worker without units only gets the sums. `timeout`: of each bucket's reduction
  // between workers; none: as the options have it.
  void begin(std::optional<Duration> timeout = {});
  void add(std::int32_t unit, std::int32_t slot, std::span<const float> values, std::int32_t pass,
           std::int32_t passes) override;
  bool wait_until(Clock& clock, TimePoint until);  // for the same; whether they are there
  Status finish();                                 // waits for the sums of all buckets

  // With options.keeps, after finish() in success or failure: the worker's own sums.
  KeptSums take_kept() { return std::move(kept_); }
  bool keeps() const noexcept { return options_.keeps; }
  bool kept_is_finite() const;  // what this worker has put into the sums
  // After begin(): takes over what an attempt before had summed; those units are not added again.
  void seed(const KeptSums& kept);

  // The sum of `slot` over all units of all ranks; from finish() to begin(). In a bucket with
  // shards, of this rank's shard only.
  std::span<float> sum(std::int32_t slot);
  std::uint64_t checksum();  // of all sums; likewise

  // After finish(): those ranks get what each of them has, or has written, in its shard of a
  // bucket, in the place of the sums. Only of buckets with shards, which are cut from `begins` on,
  // by bucket.
  struct Gathered {
    const std::vector<std::shared_ptr<const comm::Shards>>& shards;
    std::vector<std::int64_t> begins = {};  // none: 0
    std::string_view label = "parameters";
  };
  Status gather(comm::Communicator& ranks, const Gathered& gathered);

  std::uint64_t bytes() const noexcept;  // handed to the communicator in a step

 private:
  GradientExchange(std::shared_ptr<comm::Communicator> communicator, ExchangeOptions options,
                   BucketLayout layout, std::vector<comm::Buffer> buffers,
                   std::vector<comm::LeafRange> parts);
  void bucket_ready(std::int32_t bucket);
  void keep(std::int32_t bucket);
  void submit_all();
  float* rows_in(std::size_t bucket);
  std::span<float> rows(std::int32_t bucket);  // [rows_, floats of the bucket]
  bool is_narrow(std::int32_t bucket) const { return summands(bucket).dtype != DType::kF32; }
  void submit(std::int32_t bucket);
  void widen_sum(std::int32_t bucket);
  std::shared_ptr<const comm::Shards> shards_of(std::int32_t bucket) const;
  struct Part {
    std::int64_t begin = 0;
    std::int64_t count = 0;
  };
  Part own_part(std::int32_t bucket) const;  // of the first row: where this rank gets the sum
  TensorView summands(std::int32_t bucket) const;
  TensorView own_sum(std::int32_t bucket) const;
  // Of the first row, in f32, where the sum lies.
  TensorView some_of(std::int32_t bucket, Part part);

  const std::shared_ptr<comm::Communicator> communicator_;
  const ExchangeOptions options_;
  const bool listens_;       // has no units
  const std::int32_t rows_;  // of each bucket: this worker's parts, at least one for the sum
  const std::vector<comm::Buffer> buffers_;  // by bucket: [most rows of any rank, elements]
  std::vector<std::vector<float>> wide_;     // rows() of buckets of 16 bits; empty: in buffers_
  std::unique_ptr<TreeAccumulator> accumulator_;
  KeptSums kept_;  // each bucket written by the lane that completed it

  std::mutex mutex_;
  std::vector<bool> ready_;        // by bucket; guarded by mutex_
  std::size_t next_ = 0;           // first bucket not yet submitted; guarded by mutex_
  Duration timeout_;               // of this step; guarded by mutex_
  std::vector<comm::Work> works_;  // guarded by mutex_
};

}  // namespace muster::parallel
