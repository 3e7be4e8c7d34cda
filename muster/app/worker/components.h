#pragma once
// What a program adds to muster (muster::App): how its models, losses, metrics, data and transforms
// are made with the options that a job gives. Immutable while anything runs, so thread-safe.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/check.h"
#include "muster/base/files.h"
#include "muster/base/result.h"
#include "muster/data/source.h"
#include "muster/data/transform.h"
#include "muster/job/fields.h"
#include "muster/job/spec.h"
#include "muster/models/block.h"
#include "muster/models/measure.h"
#include "muster/models/model.h"

namespace muster::app {

// The options of one component: as the job gives them, else as they are by default.
class Options {
 public:
  Options(const job::OwnComponent& component, const job::OptionValues& given);

  bool flag(std::string_view name) const { return get<bool>(name); }
  std::int64_t integer(std::string_view name) const { return get<std::int64_t>(name); }
  double number(std::string_view name) const { return get<double>(name); }
  const std::string& text(std::string_view name) const { return get<std::string>(name); }
  // T: std::vector of std::int64_t, double or std::string, or one of the above. An option that the
  // component was not declared with, or with another type, is a fault of the program: it throws.
  template <class T>
  const T& get(std::string_view name) const {
    const T* value = std::get_if<T>(&find(name));
    MUSTER_CHECK(value, "the option `" + std::string(name) + "` was declared with another type");
    return *value;
  }

 private:
  const job::OptionValue& find(std::string_view name) const;
  std::string component_;
  job::OptionValues values_;  // by name
};

struct ModelRequest {
  const Options& options;
  const std::vector<data::FieldSpec>& fields;           // of a sample, as transforms leave it
  const Shape& shape_of(std::string_view field) const;  // of one sample; throws where it has none
};

enum class DataPart : std::uint8_t { kTraining, kValidation };

struct DataRequest {
  const Options& options;
  Files& files;
  Path path;  // data.path; for validation data.validation_path where the job gives one
  DataPart part = DataPart::kTraining;
  bool is_apart = false;  // validation data has a path of its own
  std::uint64_t seed = 0;
};

// Called several times, by several threads one after the other; each call makes new objects with
// the same names. Parameters that keep what their module gave them may draw it from libtorch's
// generator, which is seeded alike before each call.
using MakeModel = std::function<std::vector<models::NamedBlock>(const ModelRequest&)>;
using MakeMeasure = std::function<models::Measure(const Options&)>;  // losses and metrics
using MakeSource = std::function<Result<data::SourcePtr>(const DataRequest&)>;
using MakeTransform = std::function<data::FieldTransform(const Options&)>;

struct OwnTransform {
  MakeTransform make;
  bool training_only = false;
};

struct Components {
  job::FieldsPtr fields = job::muster_fields();
  std::map<std::string, MakeModel> models;
  std::map<std::string, MakeMeasure> losses;
  std::map<std::string, MakeMeasure> metrics;
  std::map<std::string, MakeSource> sources;
  std::map<std::string, OwnTransform> transforms;
};
using ComponentsPtr = std::shared_ptr<const Components>;

// Nothing of a program's own.
const ComponentsPtr& no_components();

// model.type names one; kInvalid with what the program threw.
Result<std::unique_ptr<models::Model>> make_model(const ComponentsPtr& own, const job::JobSpec& job,
                                                  const std::vector<data::FieldSpec>& fields);
// training.loss and evaluation.metrics, where the job names own ones.
Status give_measures(const Components& own, const job::JobSpec& job, models::Model& model);
// data.type names one.
Result<data::SourcePtr> make_source(const Components& own, const job::JobSpec& job, Files& files,
                                    DataPart part);
// data.transforms.
Result<std::vector<data::FieldTransform>> make_transforms(const Components& own,
                                                          const job::JobSpec& job, DataPart part);

// Throws std::invalid_argument where a module of libtorch cannot run as a block, and says why.
void check_module(const torch::nn::Module& module, const std::string& block);

}  // namespace muster::app
