#include "muster/models/model.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "muster/base/check.h"
#include "muster/base/units.h"
#include "muster/models/adapter.h"
#include "muster/models/device.h"
#include "muster/models/positions.h"
#include "muster/models/recompute.h"
#include "muster/models/tensor_ops.h"

namespace muster::models {
namespace {

torch::Tensor part_of(const torch::Tensor& whole, const TensorCut& cut) {
  std::vector<torch::Tensor> runs;
  runs.reserve(cut.runs.size());
  for (const Share run : cut.runs) runs.push_back(whole.narrow(cut.axis, run.begin, run.size()));
  return runs.size() == 1 ? runs.front().contiguous() : torch::cat(runs, cut.axis);
}

// Of a parameter or a statistic.
void keep_part(auto& held, TensorShare share) {
  held.cut = cut_of(held.partition, held.tensor.sizes(), share);
  if (!held.cut.is_part()) return;
  held.tensor.set_data(part_of(held.tensor.detach(), held.cut).clone());
}

// A part has the values that the whole would have there.
void initialize_parameter(const Parameter& parameter, std::uint64_t seed) {
  if (!parameter.cut.is_part())
    return initialize(parameter.tensor, parameter.init, seed, parameter.name);
  if (parameter.init.kind == InitKind::kKeep) return;
  const at::NoGradGuard no_grad;
  const torch::Tensor whole = torch::empty(parameter.cut.whole, parameter.tensor.options());
  initialize(whole, parameter.init, seed, parameter.name);
  parameter.tensor.copy_(part_of(whole, parameter.cut));
}

Error cannot_split(const std::string& family, std::string_view why) {
  return fail(
      ErrorCode::kUnsupported,
      fmt::format("[models/split] {}: {}; strategy.type sharded or pipeline spreads it over "
                  "ranks as well",
                  family, why));
}

Error cannot_share(const std::string& family, std::string_view why) {
  return fail(
      ErrorCode::kUnsupported,
      fmt::format("[models/share] ranks cannot share the sequences of {}: {}; strategy.type "
                  "data or sharded spreads it over ranks as well",
                  family, why));
}

Error cannot_deal(const std::string& family, std::string_view why) {
  return fail(ErrorCode::kUnsupported,
              fmt::format("[models/experts] the experts of {} cannot be dealt to ranks: {}; "
                          "strategy.type data or sharded spreads it over ranks as well",
                          family, why));
}

// On the device of the logits; a loss of a model's own may need no targets.
torch::Tensor beside(const torch::Tensor& logits, const torch::Tensor& target) {
  return target.defined() ? target.to(logits.device()) : target;
}

bool has_adapter(const NamedBlock& named) {
  return std::ranges::any_of(named.block->layers(),
                             [](const AdaptableLayer& layer) { return layer.adapter->attached(); });
}

}  // namespace

LossSum cross_entropy_sum(const torch::Tensor& logits, const torch::Tensor& target,
                          double label_smoothing) {
  const auto rows = logits.flatten(0, -2);
  const auto wanted = target.to(torch::kLong).flatten();
  LossSum loss;
  loss.sum = at::cross_entropy_loss(rows, wanted, {}, at::Reduction::Sum, /*ignore_index=*/-100,
                                    label_smoothing);
  loss.correct = rows.detach().argmax(-1).eq(wanted).sum();
  loss.targets = wanted.numel();
  return loss;
}

Model::Loss loss_of(Measure measure, std::string name) {
  return [measure = std::move(measure), name = std::move(name)](const torch::Tensor& outputs,
                                                                const torch::Tensor& target) {
    return LossSum{.sum = sum_of(measure, name, outputs, target),
                   .correct = at::zeros({}, outputs.options().dtype(torch::kLong)),
                   .targets = target.numel()};
  };
}

Model::Model(std::string family, Builder builder, Loss loss)
    : family_(std::move(family)),
      builder_(std::move(builder)),
      loss_(std::move(loss)),
      device_(building_device()),
      blocks_(builder_()) {
  for (const auto& named : blocks_) publish(named);
  std::set<std::string> names;
  for (const auto& parameter : parameters_)
    MUSTER_CHECK(names.insert(parameter.name).second, "two parameters named " + parameter.name);
}

void Model::publish(const NamedBlock& named) {
  for (const auto& own : named.block->parameters()) publish(named.name, own);
  for (const auto& other : named.block->borrowed()) {
    const auto has = [&](const Parameter& known) { return known.tensor.is_same(other.tensor); };
    if (std::ranges::none_of(parameters_, has)) publish(other.owner, other);
  }
  for (const auto& own : named.block->statistics()) {
    const std::string name = named.name + "." + own.name;
    statistics_.push_back({name, own.tensor, {.tensor = name, .split = own.split}});
  }
}

void Model::publish(const std::string& block, const BlockParameter& parameter) {
  const std::string name = block + "." + parameter.name;
  MUSTER_CHECK(parameter.tensor.is_contiguous(), name + " is not contiguous");
  parameters_.push_back({name,
                         parameter.tensor,
                         {name, parameter.split, parameter.split_units, parameter.stacked,
                          parameter.expert, parameter.has_addends},
                         parameter.init,
                         parameter.decays,
                         !parameter.owner.empty(),
                         {},
                         parameter.products_only});
}

torch::Tensor Model::forward(torch::Tensor inputs, PassContext& context) {
  for (std::size_t i = 0; i < blocks_.size(); ++i)
    inputs = forward_block(i, std::move(inputs), context);
  return inputs;
}

torch::Tensor Model::forward_block(std::size_t index, torch::Tensor input, PassContext& context) {
  input = input.to(device_);
  const auto& named = blocks_.at(index);
  PassContext own = context;
  own.random = context.random.fork(named.name);
  own.group = group_.get();
  own.sequences = sequences_.get();
  own.experts = experts_.get();
  if (recomputes(index)) return run_recomputed(named.block, input, own);
  return run_block(*named.block, std::move(input), own);
}

LossSum Model::loss_sum(const torch::Tensor& logits, const torch::Tensor& target) const {
  return loss_sum(widened(logits), beside(logits, target), training_loss_, label_smoothing_);
}

LossSum Model::evaluation_loss_sum(const torch::Tensor& logits, const torch::Tensor& target) const {
  const torch::Tensor outputs = widened(logits);
  const torch::Tensor here = beside(logits, target);
  LossSum loss = loss_sum(outputs, here, loss_, 0);
  for (const Metric& metric : metrics_)
    loss.measured.push_back(sum_of(metric.measure, metric.name, outputs, here).item<double>());
  return loss;
}

LossSum Model::loss_sum(const torch::Tensor& logits, const torch::Tensor& target, const Loss& loss,
                        double label_smoothing) const {
  if (loss) return loss(logits, target);
  const std::int64_t classes = cut_classes();
  const torch::Tensor own = own_targets(target);
  if (classes == 0) return cross_entropy_sum(logits, own, label_smoothing);
  const auto wanted = own.to(torch::kLong).flatten();
  CrossEntropy found =
      cross_entropy_over_ranks(logits.flatten(0, -2), wanted, classes, label_smoothing, *group_);
  return {std::move(found.sum), std::move(found.correct), wanted.numel()};
}

torch::Tensor Model::own_targets(const torch::Tensor& target) const {
  if (!sequences_) return target;
  return take(target, 1, positions_of(target.size(1), sequences_.get()));
}

const Parameter* Model::head_of_vocabulary() const {
  const Block& last = *blocks_.back().block;
  const auto is_head = [&](const Parameter& known) {
    const auto uses = [&](const BlockParameter& used) {
      return used.split == Split::kVocabulary && used.tensor.is_same(known.tensor);
    };
    return std::ranges::any_of(last.parameters(), uses) ||
           std::ranges::any_of(last.borrowed(), uses);
  };
  for (const auto* parameters : {&parameters_, &frozen_}) {
    const auto found = std::ranges::find_if(*parameters, is_head);
    if (found != parameters->end()) return &*found;
  }
  return nullptr;
}

std::int64_t Model::cut_classes() const {
  if (!group_) return 0;
  const Parameter* head = head_of_vocabulary();
  return head == nullptr ? 0 : head->cut.whole.front();
}

Status Model::check_split(const TensorGroup& group) const {
  const TensorShare share = group.share();
  if (loss_ || training_loss_)
    return cannot_split(family_, "it has a loss of its own, which may need all of its outputs");
  if (!metrics_.empty() && head_of_vocabulary() != nullptr)
    return cannot_split(family_, "it has a metric of its own, which needs all of its outputs");
  if (group.cuts_sequence() && expert_count() > 0)
    return cannot_split(family_, "which tokens an expert takes follows from all positions");
  bool any = false;
  for (const auto* list : {&parameters_, &frozen_}) {
    for (const Parameter& parameter : *list) {
      const TensorPartition& spec = parameter.partition;
      if (spec.axis() < 0) continue;
      any = true;
      const std::int64_t units =
          spec.units > 0 ? spec.units / spec.stacked : parameter.tensor.size(spec.axis());
      if (units >= share.size) continue;
      return cannot_split(family_, fmt::format("{} can be cut into {} parts at most, not into {}",
                                               parameter.name, units, share.size));
    }
  }
  if (any && group.cuts_sequence() && head_of_vocabulary() == nullptr)
    return cannot_split(family_, "it has no sequence that could be cut");
  return any ? ok() : cannot_split(family_, "none of its tensors can be cut");
}

Status Model::split(std::shared_ptr<const TensorGroup> group) {
  MUSTER_CHECK(!is_spread(), "a model is split first, and once");
  if (group->share().size == 1) return ok();  // the plain operations, with their bits
  MUSTER_TRY(check_split(*group));
  keep_parts(std::move(group));
  return ok();
}

void Model::keep_parts(std::shared_ptr<const TensorGroup> group) {
  group_ = std::move(group);
  if (!group_) return;
  for (auto* parameters : {&parameters_, &frozen_})
    for (Parameter& parameter : *parameters) keep_part(parameter, group_->share());
  for (Statistic& statistic : statistics_) keep_part(statistic, group_->share());
}

Status Model::share_sequences(std::shared_ptr<const ContextGroup> group) {
  MUSTER_CHECK(!sequences_ && !experts_, "sequences are shared once, and without experts");
  if (group->share().size == 1) return ok();  // the plain operations, with their bits
  if (group_ && group_->cuts_sequence())
    return cannot_share(family_, "between its cut layers they are shared among other ranks");
  if (loss_ || training_loss_)
    return cannot_share(family_, "it has a loss of its own, which may need all positions");
  if (!metrics_.empty())
    return cannot_share(family_, "it has a metric of its own, which may need all positions");
  for (const NamedBlock& named : blocks_)
    if (!named.block->shares_sequences())
      return cannot_share(family_, fmt::format("its block {} needs all positions", named.name));
  sequences_ = std::move(group);
  return ok();
}

std::int64_t Model::expert_count() const {
  std::int64_t experts = 0;
  for (const auto* list : {&parameters_, &frozen_})
    for (const Parameter& parameter : *list)
      experts = std::max(experts, parameter.partition.expert + 1);
  return experts;
}

bool Model::has_batch_norm() const {
  return std::ranges::any_of(blocks_,
                             [](const NamedBlock& named) { return named.block->has_batch_norm(); });
}

Status Model::check_experts(std::int64_t experts, std::int32_t ranks) const {
  if (experts == 0) return cannot_deal(family_, "it has none");
  if (experts % ranks != 0)
    return cannot_deal(
        family_, fmt::format("{} experts cannot be dealt evenly to {} ranks", experts, ranks));
  const auto adapts_experts = [](const NamedBlock& named) {
    const auto is_of_expert = [](const BlockParameter& own) { return own.expert >= 0; };
    return has_adapter(named) && std::ranges::any_of(named.block->parameters(), is_of_expert);
  };
  if (std::ranges::any_of(blocks_, adapts_experts))
    return cannot_deal(family_, "their layers have adapters");
  return ok();
}

Status Model::share_experts(std::shared_ptr<const ExpertGroup> group) {
  MUSTER_CHECK(!sequences_ && !experts_, "experts are dealt once, and of whole sequences");
  const TensorShare share = group->share();
  if (share.size == 1) return ok();  // the plain operations, with their bits
  const std::int64_t experts = expert_count();
  MUSTER_TRY(check_experts(experts, share.size));
  experts_ = std::move(group);
  keep_experts(share_of(experts, 0, share));
  return ok();
}

void Model::keep_experts(Share here) {
  const auto is_elsewhere = [&](const Parameter& parameter) {
    const std::int64_t expert = parameter.partition.expert;
    return expert >= 0 && (expert < here.begin || expert >= here.end);
  };
  for (auto* list : {&parameters_, &frozen_}) {
    for (Parameter& parameter : *list)
      if (is_elsewhere(parameter))
        parameter.tensor.set_requires_grad(false).set_data(
            torch::empty({0}, parameter.tensor.options()));
    std::erase_if(*list, is_elsewhere);
  }
  const auto first = std::ranges::stable_partition(
      parameters_, [](const Parameter& parameter) { return parameter.partition.expert < 0; });
  std::ranges::move(first, std::back_inserter(expert_parameters_));
  parameters_.erase(first.begin(), first.end());
}

std::unique_ptr<Model> Model::part(const std::vector<std::size_t>& blocks) const {
  const auto some = [builder = builder_, blocks] {
    const std::vector<NamedBlock> all = builder();
    std::vector<NamedBlock> wanted;
    wanted.reserve(blocks.size());
    for (const std::size_t index : blocks) wanted.push_back(all.at(index));
    return wanted;
  };
  MUSTER_CHECK(!experts_, "a model whose experts are dealt to ranks has no parts");
  const ScopedDevice here(device_);
  auto model = std::make_unique<Model>(family_, some, loss_);
  model->train_with(training_loss_);
  model->measure_with(metrics_);
  model->smooth_labels(label_smoothing_);
  model->freeze_as_in(*this);
  model->recompute_as_in(*this);
  model->keep_parts(group_);
  model->sequences_ = sequences_;
  return model;
}

std::unique_ptr<Model> Model::replicate() const {
  MUSTER_CHECK(!experts_, "a model whose experts are dealt to ranks has one lane");
  const ScopedDevice here(device_);
  auto replica = std::make_unique<Model>(family_, builder_, loss_);
  replica->train_with(training_loss_);
  replica->measure_with(metrics_);
  replica->smooth_labels(label_smoothing_);
  replica->freeze_as_in(*this);
  replica->recompute_as_in(*this);
  replica->group_ = group_;
  replica->sequences_ = sequences_;
  replica->share_storage_of(*this);
  return replica;
}

void Model::share_storage_of(const Model& other) {
  MUSTER_CHECK(parameters_.size() == other.parameters_.size() &&
                   frozen_.size() == other.frozen_.size() &&
                   statistics_.size() == other.statistics_.size(),
               "the builder made another model of " + family_);
  const auto share = [](std::vector<Parameter>& own, const std::vector<Parameter>& theirs) {
    for (std::size_t i = 0; i < own.size(); ++i) {
      own[i].tensor.set_data(theirs[i].tensor.detach());
      own[i].cut = theirs[i].cut;
    }
  };
  share(parameters_, other.parameters_);
  share(frozen_, other.frozen_);
  for (std::size_t i = 0; i < statistics_.size(); ++i) {
    statistics_[i].tensor.set_data(other.statistics_[i].tensor);
    statistics_[i].cut = other.statistics_[i].cut;
  }
}

void Model::freeze(const std::function<bool(const Parameter&)>& chosen) {
  const auto first = std::ranges::stable_partition(
      parameters_, [&](const Parameter& parameter) { return !chosen(parameter); });
  for (Parameter& parameter : first) {
    parameter.tensor.set_requires_grad(false);
    frozen_.push_back(std::move(parameter));
  }
  parameters_.erase(first.begin(), first.end());
}

void Model::freeze_as_in(const Model& other) {
  freeze([&](const Parameter& parameter) {
    return std::ranges::find(other.frozen_, parameter.name, &Parameter::name) !=
           other.frozen_.end();
  });
}

void Model::recompute(const std::function<bool(const std::string&)>& chosen) {
  for (std::size_t b = 0; b < blocks_.size(); ++b) recomputed_[b] = chosen(blocks_[b].name);
}

void Model::recompute_as_in(const Model& other) {
  recompute([&](const std::string& block) {
    const auto same = std::ranges::find(other.blocks_, block, &NamedBlock::name);
    return other.recomputes(static_cast<std::size_t>(same - other.blocks_.begin()));
  });
}

void Model::initialize(std::uint64_t seed) {
  for (const auto* parameters : {&parameters_, &expert_parameters_, &frozen_})
    for (const auto& parameter : *parameters) initialize_parameter(parameter, seed);
}

std::vector<torch::Tensor> Model::parameter_tensors() const {
  std::vector<torch::Tensor> tensors;
  tensors.reserve(parameters_.size());
  for (const auto& parameter : parameters_) tensors.push_back(parameter.tensor);
  return tensors;
}

void Model::apply_statistics(std::span<const torch::Tensor> merged, double momentum) {
  MUSTER_CHECK(merged.size() == statistics_.size(),
               fmt::format("{} merged statistics for {}", merged.size(), statistics_.size()));
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < merged.size(); ++i)
    statistics_[i].tensor.mul_(1 - momentum).add_(merged[i].to(device_), momentum);
}

std::vector<BlockMetric> Model::metrics(std::span<const torch::Tensor> merged) const {
  std::vector<BlockMetric> all;
  for (const auto& named : blocks_) {
    const std::size_t own = named.block->statistics().size();
    for (BlockMetric& metric : named.block->tell(merged.first(own))) {
      const auto known = std::ranges::find(all, metric.name, &BlockMetric::name);
      if (known == all.end())
        all.push_back(std::move(metric));
      else
        known->value = std::max(known->value, metric.value);
    }
    merged = merged.subspan(own);
  }
  return all;
}

std::int64_t Model::parameter_count() const noexcept {
  std::int64_t count = trained_count();
  for (const auto& parameter : frozen_) count += parameter.tensor.numel();
  return count;
}

std::int64_t Model::trained_count() const noexcept {
  std::int64_t count = 0;
  for (const auto* parameters : {&parameters_, &expert_parameters_})
    for (const auto& parameter : *parameters) count += parameter.tensor.numel();
  return count;
}

std::string Model::describe() const {
  const auto count = parameter_count();
  const std::string part =
      frozen_.empty() ? "" : fmt::format(", {} of them trained", trained_count());
  return fmt::format("{}: {}, {} parameters ({}){}, {} statistics", family_,
                     counted(static_cast<std::int64_t>(blocks_.size()), "block"), count,
                     format_bytes(static_cast<std::uint64_t>(count) * sizeof(float)), part,
                     statistics_.size());
}

}  // namespace muster::models
