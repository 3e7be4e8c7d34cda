#pragma once
// BatchStream: the steps' batches, one after the other, loaded ahead by native threads. What it
// yields is a pure function of (source, transforms, seed, plan, cursor): the same bytes for a slice
// whoever asks and with however many threads.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/data/batch.h"
#include "muster/data/transform.h"

namespace muster::data {

struct BatchStreamOptions {
  std::uint64_t seed = 0;
  bool shuffle = true;
  std::int64_t batch = 1;                           // samples of a full step, over all slices
  std::int32_t slices = 1;                          // virtual workers, over all workers
  std::vector<SliceIndex> own{SliceIndex{0}};       // those to load, ascending; may be none
  bool one_pass = false;                            // end after one epoch: evaluation
  std::int32_t threads = 1;                         // loading
  std::int32_t prefetch = 4;                        // steps loaded ahead, at most
  Duration timeout = std::chrono::seconds(120);     // of next()
  Duration stop_timeout = std::chrono::seconds(2);  // of destruction
};

// One thread calls next(). Destruction stops the loading threads after the samples in hand; where a
// read does not end within stop_timeout, as on a storage that hangs, its thread is left to itself
// and keeps what it uses, the source too, until then.
class BatchStream {
 public:
  // Starts loading at `start`, in time that does not depend on it. kInvalid for an empty source or
  // options out of range. `clock` outlives the stream and every thread that it leaves.
  static Result<std::unique_ptr<BatchStream>> create(Pipeline pipeline,
                                                     const BatchStreamOptions& options,
                                                     const Cursor& start, Clock& clock);
  ~BatchStream();

  // The next step's batch; nothing after the last one of one_pass. An error is final and names the
  // sample, its epoch and position.
  Result<std::optional<StepBatch>> next();

  const StepPlan& plan() const noexcept;

 private:
  class Loader;
  explicit BatchStream(std::shared_ptr<Loader> loader);
  std::shared_ptr<Loader> loader_;  // the loading threads' as well
};

// Options of an exact evaluation pass: no shuffling, one epoch, every sample in exactly one slice.
BatchStreamOptions evaluation_options(BatchStreamOptions options);

}  // namespace muster::data
