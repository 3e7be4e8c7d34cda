#include "muster/app/data/data_sources.h"

#include <future>
#include <utility>

#include "muster/app/data/data_files.h"
#include "muster/base/check.h"
#include "muster/base/random.h"
#include "muster/cluster/environment.h"
#include "muster/data/formats/csv/csv.h"
#include "muster/data/formats/idx/idx.h"
#include "muster/data/formats/images/images.h"
#include "muster/data/formats/text/text.h"

namespace muster::app {
namespace {

using data::SourcePair;

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

DataCard card_of(const SourcePair& sources, std::vector<std::string> classes) {
  return {.training = sources.training->size(),
          .validation = sources.validation->size(),
          .fingerprint = sources.fingerprint,
          .classes = std::move(classes),
          .target = {},
          .features = {}};
}

// Of sources that tell what they are, and nothing that a card says besides.
OpenedData opened(data::SourcePtr training, data::SourcePtr validation) {
  SourcePair sources{std::move(training), std::move(validation)};
  sources.fingerprint =
      stable_hash(std::vector{sources.training->fingerprint(), sources.validation->fingerprint()});
  DataCard card = card_of(sources, {});
  return {std::move(sources), std::move(card)};
}

Result<OpenedData> open_idx(Files& files, const job::DataSpec& data, std::int64_t classes) {
  const Path cache = cache_folder(data.cache);
  const DataFiles idx = idx_files(files, data);
  const data::IdxFiles for_training{idx.train_images, idx.train_labels, classes, cache};
  const data::IdxFiles for_validation{idx.validation_images, idx.validation_labels, classes, cache};
  // The first time inflating takes most of a worker's start; the two sets are independent.
  auto other = std::async(std::launch::async,
                          [&] { return data::create_idx_source(files, for_validation); });
  Result<data::SourcePtr> training = data::create_idx_source(files, for_training);
  Result<data::SourcePtr> validation = other.get();
  if (!training) return std::move(training).error();
  if (!validation) return std::move(validation).error();
  return opened(std::move(*training), std::move(*validation));
}

Result<OpenedData> open_images(Files& files, const job::DataSpec& data, std::int64_t classes) {
  MUSTER_ASSIGN(data::ImageSets sets,
                data::create_image_sources(
                    files, {.path = data.path,
                            .validation_path = data.validation_path,
                            .validation_fraction = data.validation_split,
                            .size = data.images.size,
                            .channels = data.images.mode == job::ImageMode::kGray ? 1 : 3,
                            .classes = classes}));
  DataCard card = card_of(sets.sources, std::move(sets.classes));
  return OpenedData{std::move(sets.sources), std::move(card)};
}

data::CsvLayout layout_of(const job::CsvSpec& csv) {
  data::CsvLayout layout{.delimiter = csv.delimiter.front(),
                         .header = csv.header,
                         .decimal = csv.decimal == job::DecimalMark::kComma ? ',' : '.'};
  if (!csv.missing.empty()) layout.missing = csv.missing;
  return layout;
}

Result<OpenedData> open_csv(Files& files, const job::DataSpec& data, std::int64_t classes) {
  MUSTER_ASSIGN(data::CsvSets sets,
                data::create_csv_sources(files, {.path = data.path,
                                                 .validation_path = data.validation_path,
                                                 .validation_fraction = data.validation_split,
                                                 .layout = layout_of(data.csv),
                                                 .target = data.csv.target,
                                                 .ignore = data.csv.ignore,
                                                 .classes = classes,
                                                 .cache = cache_folder(data.cache)}));
  DataCard card = card_of(sets.sources, std::move(sets.classes));
  card.target = std::move(sets.target);
  card.features = std::move(sets.features);
  return OpenedData{std::move(sets.sources), std::move(card)};
}

Result<OpenedData> open_text(Files& files, const job::DataSpec& data) {
  const bool split = data.validation_path.empty();
  data::TextOptions options{.path = data.path,
                            .context_length = data.context_length,
                            .part = split ? data::TextPart::kTraining : data::TextPart::kAll,
                            .validation_fraction = data.validation_split};
  MUSTER_ASSIGN(data::SourcePtr training, data::create_text_source(files, options));
  if (!split) options.path = data.validation_path;
  if (split) options.part = data::TextPart::kValidation;
  MUSTER_ASSIGN(data::SourcePtr validation, data::create_text_source(files, options));
  return opened(std::move(training), std::move(validation));
}

}  // namespace

Result<OpenedData> open_data(Files& files, const job::JobSpec& job) {
  MUSTER_CHECK(job.data.type != job::DataType::kOwn, "a program's own data has its own sources");
  // How many classes a model of a program's own has, that program knows.
  const std::int64_t classes = job.model.type == job::ModelType::kOwn ? 0 : job.model.classes;
  switch (job.data.type) {
    case job::DataType::kIdx:
      return open_idx(files, job.data, classes);
    case job::DataType::kImages:
      return open_images(files, job.data, classes);
    case job::DataType::kCsv:
      return open_csv(files, job.data, classes);
    case job::DataType::kText:
    case job::DataType::kOwn:
      break;
  }
  return open_text(files, job.data);
}

}  // namespace muster::app
