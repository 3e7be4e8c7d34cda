#include "muster/app/worker/build_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <iterator>
#include <utility>
#include <vector>

#include "muster/app/data/data_files.h"
#include "muster/cluster/environment.h"
#include "muster/data/formats/idx/idx.h"
#include "muster/data/formats/text/text.h"

namespace muster::app {
namespace {

struct Sources {
  data::SourcePtr training;
  data::SourcePtr evaluation;
};

// Empty: none. A machine without a home folder is no error.
Path cache_folder(const std::string& cache) {
  if (cache == "none") return {};
  if (cache != "auto") return cache;
  if (const auto folder = cluster::system_variable("XDG_CACHE_HOME"); folder && !folder->empty())
    return Path(*folder) / "muster";
  if (const auto home = cluster::system_variable("HOME"); home && !home->empty())
    return Path(*home) / ".cache" / "muster";
  return {};
}

Result<Sources> open_idx(Files& files, const job::DataSpec& data, std::int64_t classes) {
  const Path cache = cache_folder(data.cache);
  const DataFiles idx = idx_files(files, data);
  const data::IdxFiles for_training{idx.train_images, idx.train_labels, classes, cache};
  const data::IdxFiles for_evaluation{idx.validation_images, idx.validation_labels, classes, cache};
  // The first time inflating takes most of a worker's start; the two sets are independent.
  auto other = std::async(std::launch::async,
                          [&] { return data::create_idx_source(files, for_evaluation); });
  Result<data::SourcePtr> training = data::create_idx_source(files, for_training);
  Result<data::SourcePtr> evaluation = other.get();
  if (!training) return std::move(training).error();
  if (!evaluation) return std::move(evaluation).error();
  return Sources{std::move(*training), std::move(*evaluation)};
}

Result<Sources> open_text(Files& files, const job::DataSpec& data) {
  const bool split = data.validation_path.empty();
  data::TextOptions options{.path = data.path,
                            .context_length = data.context_length,
                            .part = split ? data::TextPart::kTraining : data::TextPart::kAll,
                            .validation_fraction = data.validation_split};
  MUSTER_ASSIGN(data::SourcePtr training, data::create_text_source(files, options));
  if (!split) options.path = data.validation_path;
  if (split) options.part = data::TextPart::kValidation;
  MUSTER_ASSIGN(data::SourcePtr evaluation, data::create_text_source(files, options));
  return Sources{std::move(training), std::move(evaluation)};
}

std::vector<float> as_floats(const std::vector<double>& values, float otherwise) {
  if (values.empty()) return {otherwise};
  return {values.begin(), values.end()};
}

Result<Sources> open_own(Files& files, const job::JobSpec& job, const Components& own) {
  Sources sources;
  MUSTER_ASSIGN(sources.training, make_source(own, job, files, DataPart::kTraining));
  MUSTER_ASSIGN(sources.evaluation, make_source(own, job, files, DataPart::kValidation));
  return sources;
}

Result<Sources> open_sources(Files& files, const job::JobSpec& job, const Components& own) {
  switch (job.data.type) {
    case job::DataType::kOwn:
      return open_own(files, job, own);
    case job::DataType::kText:
      return open_text(files, job.data);
    case job::DataType::kIdx:
      break;
  }
  return open_idx(files, job.data, job.model.type == job::ModelType::kOwn ? 0 : job.model.classes);
}

std::vector<data::FieldTransform> image_transforms(const job::DataSpec& data, bool training) {
  if (data.type != job::DataType::kIdx) return {};
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

}  // namespace

Result<DataPipelines> build_data(Files& files, const job::JobSpec& job, const Components& own) {
  MUSTER_ASSIGN(Sources sources, open_sources(files, job, own));
  MUSTER_ASSIGN(auto for_training, transforms_of(job, own, DataPart::kTraining));
  MUSTER_ASSIGN(auto for_evaluation, transforms_of(job, own, DataPart::kValidation));
  MUSTER_ASSIGN(auto training, data::Pipeline::create(std::move(sources.training),
                                                      std::move(for_training), job.seed));
  MUSTER_ASSIGN(auto evaluation, data::Pipeline::create(std::move(sources.evaluation),
                                                        std::move(for_evaluation), job.seed));
  MUSTER_TRY(check_alike(training, evaluation));
  return DataPipelines{std::move(training), std::move(evaluation)};
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
