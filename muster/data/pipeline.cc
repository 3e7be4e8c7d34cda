#include <fmt/format.h>

#include <algorithm>

#include "muster/base/check.h"
#include "muster/data/transform.h"

namespace muster::data {
namespace {

TensorView view_at(const FieldSpec& field, std::byte* place) {
  return {field.dtype, field.shape, {place, static_cast<std::size_t>(byte_size(field))}};
}

}  // namespace

Result<Pipeline> Pipeline::create(SourcePtr source, std::vector<FieldTransform> transforms,
                                  std::uint64_t seed) {
  MUSTER_CHECK(source != nullptr, "a pipeline needs a source");
  Pipeline pipeline;
  pipeline.seed_ = seed;
  pipeline.fields_ = source->fields();
  pipeline.stages_.resize(pipeline.fields_.size());
  pipeline.source_ = std::move(source);
  for (std::size_t number = 0; number < transforms.size(); ++number) {
    auto& [name, transform] = transforms[number];
    const auto field = std::ranges::find(pipeline.fields_, name, &FieldSpec::name);
    if (field == pipeline.fields_.end()) {
      return fail(ErrorCode::kInvalid,
                  fmt::format("[data/{}] the source has no field \"{}\"", transform->name(), name));
    }
    MUSTER_ASSIGN(*field, transform->output(*field));
    pipeline.stages_[static_cast<std::size_t>(field - pipeline.fields_.begin())].push_back(
        {std::move(transform), *field, number});
  }
  return pipeline;
}

Pipeline::Scratch::Scratch(const Pipeline& pipeline) {
  const std::vector<FieldSpec>& sources = pipeline.source().fields();
  std::int64_t bytes = 0;
  for (std::size_t field = 0; field < sources.size(); ++field) {
    if (!pipeline.stages_[field].empty()) bytes += byte_size(sources[field]);
    for (const Stage& stage : pipeline.stages_[field]) bytes += byte_size(stage.output);
  }
  bytes_.resize(static_cast<std::size_t>(bytes));
  std::byte* place = bytes_.data();
  between_.resize(sources.size());
  const auto next = [&place](const FieldSpec& field) {
    std::byte* const here = place;
    place += byte_size(field);
    return view_at(field, here);
  };
  for (std::size_t field = 0; field < sources.size(); ++field) {
    const auto& stages = pipeline.stages_[field];
    inputs_.push_back(stages.empty() ? view_at(sources[field], nullptr) : next(sources[field]));
    for (const Stage& stage : stages) between_[field].push_back(next(stage.output));
  }
}

Status Pipeline::read(std::int64_t epoch, std::int64_t index, std::span<const TensorView> into,
                      Scratch& scratch) const {
  for (std::size_t field = 0; field < stages_.size(); ++field) {
    if (stages_[field].empty()) scratch.inputs_[field].bytes = into[field].bytes;
  }
  MUSTER_TRY(source_->read(index, scratch.inputs_));
  const RandomStream random(seed_, "augment", static_cast<std::uint64_t>(epoch),
                            static_cast<std::uint64_t>(index));
  for (std::size_t field = 0; field < stages_.size(); ++field) {
    const TensorView* input = &scratch.inputs_[field];
    for (std::size_t i = 0; i < stages_[field].size(); ++i) {
      const Stage& stage = stages_[field][i];
      const bool last = i + 1 == stages_[field].size();
      const TensorView& output = last ? into[field] : scratch.between_[field][i];
      stage.transform->apply(random.fork(stage.number), *input, output);
      input = &output;
    }
  }
  return ok();
}

}  // namespace muster::data
