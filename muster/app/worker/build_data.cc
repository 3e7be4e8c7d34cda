#include "muster/app/worker/build_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "muster/app/data/data_files.h"
#include "muster/app/data/data_sources.h"
#include "muster/base/random.h"
#include "muster/job/enum_names.h"

namespace muster::app {
namespace {

std::vector<float> as_floats(const std::vector<double>& values, float otherwise) {
  if (values.empty()) return {otherwise};
  return {values.begin(), values.end()};
}

Result<OpenedData> open_own(Files& files, const job::JobSpec& job, const Components& own) {
  data::SourcePair sources;
  MUSTER_ASSIGN(sources.training, make_source(own, job, files, DataPart::kTraining));
  MUSTER_ASSIGN(sources.validation, make_source(own, job, files, DataPart::kValidation));
  return OpenedData{std::move(sources)};
}

std::uint64_t fingerprint_of(const data::SourcePair& sources) {
  return stable_hash(std::vector<std::int64_t>{sources.training->size(), sources.validation->size(),
                                               static_cast<std::int64_t>(sources.fingerprint)});
}

std::vector<data::FieldTransform> image_transforms(const job::DataSpec& data, bool training) {
  if (data.type != job::DataType::kIdx && data.type != job::DataType::kImages) return {};
  std::vector<data::FieldTransform> transforms;
  if (training && data.augment.crop_padding > 0) {
    const auto padding = static_cast<std::int32_t>(data.augment.crop_padding);
    transforms.push_back({"image", data::random_crop(padding)});
  }
  if (training && data.augment.flip)
    transforms.push_back({"image", data::random_horizontal_flip()});
  transforms.push_back(
      {"image", data::normalise(as_floats(data.mean, 0.0f), as_floats(data.std, 1.0f))});
  return transforms;
}

// Own ones come last: they get images as the model does.
Result<std::vector<data::FieldTransform>> transforms_of(const job::JobSpec& job,
                                                        const Components& own, DataPart part) {
  auto transforms = image_transforms(job.data, part == DataPart::kTraining);
  MUSTER_ASSIGN(auto added, make_transforms(own, job, part));
  std::ranges::move(added, std::back_inserter(transforms));
  return transforms;
}

// What a model is built for is the training's; of anything else it would make something, or fail
// in the middle of an evaluation.
Status check_alike(const data::Pipeline& training, const data::Pipeline& evaluation) {
  const auto& wanted = training.fields();
  const auto& found = evaluation.fields();
  if (wanted == found) return ok();
  const auto words = [](const std::vector<data::FieldSpec>& fields) {
    std::string text;
    for (const data::FieldSpec& field : fields)
      text += (text.empty() ? "" : ", ") + describe(field);
    return text;
  };
  return fail(ErrorCode::kInvalid,
              fmt::format("[worker/data] the samples for evaluation are {}, those for training {}: "
                          "the same model needs them alike; see data.path and "
                          "data.validation_path",
                          words(found), words(wanted)));
}

// What it cannot take would only show in its first forward, and without the file's name. Of the
// other types of data all samples are of one kind.
Status check_model_takes(Files& files, const job::JobSpec& job,
                         const std::vector<data::FieldSpec>& fields) {
  const auto image = std::ranges::find(fields, "image", &data::FieldSpec::name);
  if (job.data.type != job::DataType::kIdx || image == fields.end()) return ok();
  const std::size_t axes = image->shape.size();
  std::string_view wanted;
  if (job.model.type == job::ModelType::kResnet && axes != 3)
    wanted = "images [channels, height, width]; other samples are for model.type mlp";
  if (job.model.type == job::ModelType::kMlp && axes == 0)
    wanted = "samples of one axis or more; are images and labels swapped?";
  if (wanted.empty()) return ok();
  return fail(ErrorCode::kInvalid,
              fmt::format("[worker/data] {} yields {}, but model {} takes {}",
                          idx_files(files, job.data).train_images.string(), describe(*image),
                          job::to_string(job.model.type), wanted));
}

}  // namespace

Result<DataPipelines> build_data(Files& files, const job::JobSpec& job, const Components& own) {
  MUSTER_ASSIGN(OpenedData opened, job.data.type == job::DataType::kOwn ? open_own(files, job, own)
                                                                        : open_data(files, job));
  data::SourcePair& sources = opened.sources;
  const std::uint64_t fingerprint = fingerprint_of(sources);
  MUSTER_ASSIGN(auto for_training, transforms_of(job, own, DataPart::kTraining));
  MUSTER_ASSIGN(auto for_evaluation, transforms_of(job, own, DataPart::kValidation));
  MUSTER_ASSIGN(auto training, data::Pipeline::create(std::move(sources.training),
                                                      std::move(for_training), job.seed));
  MUSTER_ASSIGN(auto evaluation, data::Pipeline::create(std::move(sources.validation),
                                                        std::move(for_evaluation), job.seed));
  MUSTER_TRY(check_alike(training, evaluation));
  MUSTER_TRY(check_model_takes(files, job, training.fields()));
  return DataPipelines{std::move(training), std::move(evaluation), fingerprint,
                       std::move(opened.card)};
}

data::BatchStreamOptions stream_options(const job::JobSpec& job) {
  return {.seed = job.seed,
          .shuffle = job.data.shuffle,
          .batch = job.training.global_batch_size,
          .slices = static_cast<std::int32_t>(job.training.virtual_workers),
          .own = {},
          .threads = static_cast<std::int32_t>(job.data.loader_threads),
          .prefetch = static_cast<std::int32_t>(job.data.prefetch_batches)};
}

Result<data::StepBatch> first_slice(const data::Pipeline& training, const job::JobSpec& job) {
  data::BatchStreamOptions options = stream_options(job);
  options.own = {SliceIndex{0}};
  options.prefetch = 1;
  MUSTER_ASSIGN(auto stream, data::BatchStream::create(training, options, {}, system_clock()));
  MUSTER_ASSIGN(auto batch, stream->next());
  if (!batch) return fail(ErrorCode::kInternal, "[worker/data] the data has no first batch");
  return std::move(*batch);
}

}  // namespace muster::app
