#include "muster/app/worker/components.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/modules/dropout.h>

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <utility>

namespace muster::app {
namespace {

const job::OwnComponent& component_of(const Components& own, std::string_view name) {
  const auto& all = own.fields->own();
  const auto found = std::ranges::find(all, name, &job::OwnComponent::name);
  MUSTER_CHECK(found != all.end(), "nothing own is named " + std::string(name));
  return *found;
}

Options component_options(const Components& own, const job::JobSpec& job, std::string_view name) {
  return {component_of(own, name), job.options};
}

// What a program's own code throws, as an error that says whose it is.
template <class Make>
auto guarded(std::string_view field, const std::string& name, const Make& make)
    -> Result<std::decay_t<decltype(make())>> {
  try {
    return make();
  } catch (const c10::Error& error) {
    return fail(ErrorCode::kInvalid,
                fmt::format("[app] {} {}: {}", field, name, error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return fail(ErrorCode::kInvalid, fmt::format("[app] {} {}: {}", field, name, error.what()));
  }
}

void seed_generator(std::uint64_t seed) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(seed);
}

// Modules draw their first values from libtorch's one generator: they are the same on every worker
// and for every lane where it is seeded before, and nobody else draws meanwhile.
models::Model::Builder seeded_builder(const ComponentsPtr& own, const job::JobSpec& job,
                                      const std::vector<data::FieldSpec>& fields) {
  return [own, fields, name = job.model.own, seed = job.seed,
          options = component_options(*own, job, job.model.own),
          one = std::make_shared<std::mutex>()] {
    const std::lock_guard lock(*one);
    seed_generator(seed);
    return own->models.at(name)({.options = options, .fields = fields});
  };
}

std::string described(const std::vector<data::FieldSpec>& fields) {
  std::vector<std::string> words;
  words.reserve(fields.size());
  for (const data::FieldSpec& field : fields) words.push_back(describe(field));
  return fmt::format("{}", fmt::join(words, ", "));
}

Status check_fields(const std::string& name, const std::vector<data::FieldSpec>& fields) {
  const auto has = [&](std::string_view field) {
    return std::ranges::find(fields, field, &data::FieldSpec::name) != fields.end();
  };
  const bool examples = (has("input") || has("image")) && (has("target") || has("label"));
  if (examples || has("tokens")) return ok();
  return fail(ErrorCode::kInvalid,
              fmt::format("[app] data.type {} yields {}; expected the fields `input` and `target`, "
                          "`image` and `label`, or `tokens`",
                          name, described(fields)));
}

bool draws_at_random(const torch::nn::Module& module) {
  const auto is = [&]<class... Kinds>() {
    return ((dynamic_cast<const Kinds*>(&module) != nullptr) || ...);
  };
  return is.template
  operator()<torch::nn::DropoutImpl, torch::nn::Dropout2dImpl, torch::nn::Dropout3dImpl,
             torch::nn::AlphaDropoutImpl, torch::nn::FeatureAlphaDropoutImpl>();
}

}  // namespace

Options::Options(const job::OwnComponent& component, const job::OptionValues& given)
    : component_(component.name) {
  for (const job::OwnOption& option : component.options) {
    const auto found = given.find(fmt::format("options.{}.{}", component.name, option.name));
    values_[option.name] = found == given.end() ? option.usual : found->second;
  }
}

const job::OptionValue& Options::find(std::string_view name) const {
  const auto found = values_.find(name);
  MUSTER_CHECK(found != values_.end(),
               fmt::format("`{}` was declared without an option `{}`", component_, name));
  return found->second;
}

const Shape& ModelRequest::shape_of(std::string_view field) const {
  const auto found = std::ranges::find(fields, field, &data::FieldSpec::name);
  if (found != fields.end()) return found->shape;
  throw std::invalid_argument(
      fmt::format("the data has no field `{}`; it yields {}", field, described(fields)));
}

const ComponentsPtr& no_components() {
  static const ComponentsPtr kNone = std::make_shared<const Components>();
  return kNone;
}

Result<std::unique_ptr<models::Model>> make_model(const ComponentsPtr& own, const job::JobSpec& job,
                                                  const std::vector<data::FieldSpec>& fields) {
  return guarded("model.type", job.model.own, [&] {
    auto model = std::make_unique<models::Model>(job.model.own, seeded_builder(own, job, fields));
    if (model->blocks().empty() || model->parameters().empty())
      throw std::invalid_argument("it has no parameters, so there is nothing to train");
    return model;
  });
}

Status give_measures(const Components& own, const job::JobSpec& job, models::Model& model) {
  const std::string& loss = job.training.loss;
  if (loss != job::kCrossEntropy) {
    MUSTER_ASSIGN(auto measure, guarded("training.loss", loss, [&] {
                    return own.losses.at(loss)(component_options(own, job, loss));
                  }));
    model.learn_by(models::loss_of(std::move(measure), "training.loss " + loss));
  }
  std::vector<models::Model::Metric> metrics;
  for (const std::string& name : job.evaluation.metrics) {
    MUSTER_ASSIGN(auto measure, guarded("evaluation.metrics", name, [&] {
                    return own.metrics.at(name)(component_options(own, job, name));
                  }));
    metrics.push_back({"evaluation.metrics " + name, std::move(measure)});
  }
  model.measure_with(std::move(metrics));
  return ok();
}

Result<data::SourcePtr> make_source(const Components& own, const job::JobSpec& job, Files& files,
                                    DataPart part) {
  const std::string& name = job.data.own;
  const Options options = component_options(own, job, name);
  const bool apart = part == DataPart::kValidation && !job.data.validation_path.empty();
  const DataRequest request{.options = options,
                            .files = files,
                            .path = apart ? job.data.validation_path : job.data.path,
                            .part = part,
                            .is_apart = apart,
                            .seed = job.seed};
  Result<data::SourcePtr> made = data::SourcePtr();
  MUSTER_TRY(guarded("data.type", name, [&] {
    made = own.sources.at(name)(request);
    return true;
  }));
  if (!made) return made;
  if (!*made || (*made)->size() <= 0)
    return fail(ErrorCode::kInvalid,
                fmt::format("[app] data.type {} has no {} samples", name,
                            part == DataPart::kTraining ? "training" : "validation"));
  MUSTER_TRY(check_fields(name, (*made)->fields()));
  return made;
}

Result<std::vector<data::FieldTransform>> make_transforms(const Components& own,
                                                          const job::JobSpec& job, DataPart part) {
  std::vector<data::FieldTransform> transforms;
  for (const std::string& name : job.data.transforms) {
    const OwnTransform& transform = own.transforms.at(name);
    if (transform.training_only && part != DataPart::kTraining) continue;
    MUSTER_ASSIGN(auto made, guarded("data.transforms", name, [&] {
                    return transform.make(component_options(own, job, name));
                  }));
    transforms.push_back(std::move(made));
  }
  return transforms;
}

void check_module(const torch::nn::Module& module, const std::string& block) {
  const auto buffers = module.named_buffers();
  if (!buffers.is_empty())
    throw std::invalid_argument(fmt::format(
        "its block `{}` has the buffer `{}`, which lanes and workers would change in an order of "
        "their own; a models::Block may have statistics, which muster merges (docs/app.md)",
        block, buffers[0].key()));
  for (const auto& part : module.modules())
    if (draws_at_random(*part))
      throw std::invalid_argument(fmt::format(
          "its block `{}` has libtorch's {}, whose random numbers depend on who ran before; a "
          "models::Block has muster's keyed dropout (docs/app.md)",
          block, part->name()));
}

}  // namespace muster::app
