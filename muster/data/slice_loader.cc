#include "muster/data/slice_loader.h"

#include <fmt/format.h>

namespace muster::data {

std::size_t storage_bytes(const std::vector<FieldSpec>& fields, std::int64_t samples) noexcept {
  std::size_t bytes = 0;
  for (const FieldSpec& field : fields) {
    bytes += align_up(static_cast<std::size_t>(byte_size(field) * samples));
  }
  return bytes;
}

SliceLoader::SliceLoader(const Pipeline& pipeline, const Sampler& sampler, StoragePool& pool,
                         const std::atomic<bool>& stop)
    : pipeline_(pipeline), sampler_(sampler), pool_(pool), stop_(stop), scratch_(pipeline) {
  for (const FieldSpec& field : pipeline.fields()) {
    sample_.push_back({field.dtype, field.shape, {}});
  }
}

Status SliceLoader::load(std::int64_t epoch, SliceBatch& batch) {
  lay_out(batch);
  for (std::int64_t position = batch.positions.begin; position < batch.positions.end; ++position) {
    if (stop_.load(std::memory_order_relaxed)) {
      return fail(ErrorCode::kCancelled, "[data/load] the stream was closed");
    }
    MUSTER_TRY(load_sample(epoch, position));
    for (TensorView& view : sample_)
      view.bytes = {view.bytes.data() + view.bytes.size(), view.bytes.size()};
  }
  return ok();
}

void SliceLoader::lay_out(SliceBatch& batch) {
  batch.storage = pool_.take();
  batch.samples = batch.positions.size();
  std::byte* place = batch.storage.get();
  const std::vector<FieldSpec>& fields = pipeline_.fields();
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto bytes = static_cast<std::size_t>(byte_size(fields[i]));
    const std::size_t all = bytes * static_cast<std::size_t>(batch.samples);
    Shape shape{batch.samples};
    shape.insert(shape.end(), fields[i].shape.begin(), fields[i].shape.end());
    batch.fields.push_back({fields[i].name, {fields[i].dtype, std::move(shape), {place, all}}});
    sample_[i].bytes = {place, bytes};
    place += align_up(all);
  }
}

Status SliceLoader::load_sample(std::int64_t epoch, std::int64_t position) {
  const std::int64_t index = sampler_.index(epoch, position);
  Status status = pipeline_.read(epoch, index, sample_, scratch_);
  if (status) return status;
  return with_context(
      std::move(status).error(),
      fmt::format("[data/load] sample {} (epoch {}, position {})", index, epoch, position));
}

}  // namespace muster::data
