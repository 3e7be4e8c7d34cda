#pragma once
// SliceLoader: fills one slice's batch, on the thread that asks. What it writes depends only on
// (pipeline, sampler, epoch, positions). Each thread has its own.

#include <atomic>
#include <memory>
#include <vector>

#include "muster/data/batch.h"
#include "muster/data/sampler.h"
#include "muster/data/storage_pool.h"
#include "muster/data/transform.h"

namespace muster::data {

// Bytes of storage that a batch of `samples` needs, each field aligned.
std::size_t storage_bytes(const std::vector<FieldSpec>& fields, std::int64_t samples) noexcept;

class SliceLoader {
 public:
  // The references outlive the loader; `stop` ends a load early, with kCancelled.
  SliceLoader(const Pipeline& pipeline, const Sampler& sampler, StoragePool& pool,
              const std::atomic<bool>& stop);

  // Fills storage, samples and fields of `batch` for its positions. An error names the sample.
  Status load(std::int64_t epoch, SliceBatch& batch);

 private:
  void lay_out(SliceBatch& batch);
  Status load_sample(std::int64_t epoch, std::int64_t position);

  const Pipeline& pipeline_;
  const Sampler& sampler_;
  StoragePool& pool_;
  const std::atomic<bool>& stop_;
  Pipeline::Scratch scratch_;
  std::vector<TensorView> sample_;  // where the next sample goes, a view for each field
};

}  // namespace muster::data
