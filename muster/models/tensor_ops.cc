#include "muster/models/tensor_ops.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <memory>
#include <utility>

#include "muster/models/custom_node.h"
#include "muster/models/precision.h"

namespace muster::models {
namespace {

using torch::autograd::variable_list;

bool cuts(const TensorGroup* group) { return group != nullptr && group->share().size > 1; }

torch::Tensor sum_of(const torch::Tensor& addend, const TensorGroup& group, std::string_view what) {
  return group.sum(widened(addend), what).to(addend.scalar_type());
}

class SumOfGradients final : public torch::autograd::Node {
 public:
  explicit SumOfGradients(const TensorGroup& group) : group_(group) {}
  std::string name() const override { return "SumOfGradients"; }

 private:
  // Without a gradient here there is none on any rank.
  variable_list apply(variable_list&& gradients) override {
    if (!gradients.front().defined()) return variable_list(1);
    return {sum_of(gradients.front(), group_, "gradients of activations")};
  }

  const TensorGroup& group_;
};

class PassOn final : public torch::autograd::Node {
 public:
  std::string name() const override { return "PassOn"; }

 private:
  variable_list apply(variable_list&& gradients) override { return std::move(gradients); }
};

// [n, positions, …] as [ranks, n, positions of each, …].
torch::Tensor by_ranks(const torch::Tensor& whole, const TensorGroup& group) {
  TORCH_CHECK(whole.size(1) % group.share().size == 0, whole.size(1),
              " positions cannot be dealt to ", group.share().size, " ranks");
  return whole.unflatten(1, {group.share().size, -1}).transpose(0, 1).contiguous();
}

torch::Tensor gather_positions(const torch::Tensor& own, const TensorGroup& group,
                               std::string_view what) {
  return group.gather(own, what).transpose(0, 1).flatten(1, 2);
}

torch::Tensor sum_positions(const torch::Tensor& addend, const TensorGroup& group,
                            std::string_view what) {
  return group.sum_own(by_ranks(widened(addend), group), what).to(addend.scalar_type());
}

class SumOfPositions final : public torch::autograd::Node {
 public:
  explicit SumOfPositions(const TensorGroup& group) : group_(group) {}
  std::string name() const override { return "SumOfPositions"; }

 private:
  variable_list apply(variable_list&& gradients) override {
    if (!gradients.front().defined()) return variable_list(1);
    return {sum_positions(gradients.front(), group_, "gradients of activations")};
  }

  const TensorGroup& group_;
};

class GatherPositions final : public torch::autograd::Node {
 public:
  explicit GatherPositions(const TensorGroup& group) : group_(group) {}
  std::string name() const override { return "GatherPositions"; }

 private:
  variable_list apply(variable_list&& gradients) override {
    if (!gradients.front().defined()) return variable_list(1);
    return {gather_positions(gradients.front(), group_, "gradients of activations")};
  }

  const TensorGroup& group_;
};

bool cuts_sequence(const TensorGroup* group) { return cuts(group) && group->cuts_sequence(); }

// The gradient of a row's cross entropy is softmax(logits) - what the target asks for.
class CrossEntropyGradient final : public torch::autograd::Node {
 public:
  explicit CrossEntropyGradient(const torch::Tensor& excess) : excess_(excess, false) {}
  std::string name() const override { return "CrossEntropyGradient"; }
  void release_variables() override { excess_.reset_data(); }

 private:
  variable_list apply(variable_list&& gradients) override {
    if (!gradients.front().defined()) return variable_list(1);
    return {excess_.unpack() * gradients.front()};
  }

  torch::autograd::SavedVariable excess_;
};

// What is known of all rows once every rank has told of its classes.
struct Rows {
  torch::Tensor log_sum;    // [n]: log of the sum of exp over all classes
  torch::Tensor of_target;  // [n]: the target's logit
  torch::Tensor mean;       // [n]: over all classes
  torch::Tensor largest;    // [n]: the class of the largest logit, the first of several
};

// This rank's targets as its own classes; 0 where they are others'.
struct OwnTargets {
  torch::Tensor classes;
  torch::Tensor are_mine;
};

OwnTargets own_targets(const torch::Tensor& target, Share own) {
  const auto mine = target.ge(own.begin).logical_and(target.lt(own.end));
  return {(target - own.begin).masked_fill(mine.logical_not(), 0), mine};
}

// Numbers of classes are exact in f64.
Rows rows_of(const torch::Tensor& logits, const OwnTargets& targets, Share own,
             std::int64_t classes, const TensorGroup& group) {
  constexpr std::int64_t kRanks = 0;
  const auto [largest, which] = logits.max(-1);
  const auto of_target = logits.gather(-1, targets.classes.unsqueeze(-1))
                             .squeeze(-1)
                             .masked_fill(targets.are_mine.logical_not(), 0);
  const auto told =
      at::stack({largest.to(torch::kDouble), (which + own.begin).to(torch::kDouble),
                 of_target.to(torch::kDouble), logits.sum(-1, false, torch::kDouble)});
  const auto all = group.gather(told, "logits by row");  // [ranks, 4, n]
  const auto [most, who] = all.select(1, 0).max(kRanks);
  const auto exponentials = (logits - most.to(logits.scalar_type()).unsqueeze(-1)).exp();
  const auto sums =
      group.gather(exponentials.sum(-1, false, torch::kDouble), "sums of exponentials");
  return {.log_sum = sums.sum(kRanks).log() + most,
          .of_target = all.select(1, 2).sum(kRanks),
          .mean = all.select(1, 3).sum(kRanks) / static_cast<double>(classes),
          .largest = all.select(1, 1).gather(kRanks, who.unsqueeze(0)).squeeze(0)};
}

// In place of probabilities: less the target's share, 1 - smoothing of its own and the rest of all.
torch::Tensor excess_of(const torch::Tensor& logits, const OwnTargets& targets, const Rows& rows,
                        double smoothing, std::int64_t classes) {
  auto excess = (logits - rows.log_sum.to(logits.scalar_type()).unsqueeze(-1)).exp_();
  const auto asked = targets.are_mine.to(logits.scalar_type()) * (smoothing - 1);
  excess.scatter_add_(-1, targets.classes.unsqueeze(-1), asked.unsqueeze(-1));
  return smoothing > 0 ? excess.sub_(smoothing / static_cast<double>(classes)) : excess;
}

bool all_below(const torch::Tensor& numbers, std::int64_t end) {
  return numbers.numel() == 0 ||
         (numbers.min().item<std::int64_t>() >= 0 && numbers.max().item<std::int64_t>() < end);
}

}  // namespace

torch::Tensor copy_to_ranks(const torch::Tensor& input, const TensorGroup* group) {
  if (!cuts(group) || !has_graph(input)) return input;
  return with_history(input.variable_data(), input, std::make_shared<SumOfGradients>(*group));
}

torch::Tensor sum_over_ranks(const torch::Tensor& partial, const TensorGroup* group) {
  if (!cuts(group)) return partial;
  torch::Tensor sum = sum_of(partial.detach(), *group, "activations");
  if (!has_graph(partial)) return sum;
  return with_history(std::move(sum), partial, std::make_shared<PassOn>());
}

Share positions_of(std::int64_t positions, const TensorGroup* group) {
  if (!cuts_sequence(group)) return {0, positions};
  return even_share(positions, group->share().size, group->share().rank);
}

torch::Tensor enter_cut(const torch::Tensor& input, const TensorGroup* group) {
  if (!cuts_sequence(group)) return copy_to_ranks(input, group);
  torch::Tensor whole = gather_positions(input.detach(), *group, "activations");
  if (!has_graph(input)) return whole;
  return with_history(std::move(whole), input, std::make_shared<SumOfPositions>(*group));
}

torch::Tensor leave_cut(const torch::Tensor& partial, const TensorGroup* group) {
  if (!cuts_sequence(group)) return sum_over_ranks(partial, group);
  torch::Tensor own = sum_positions(partial.detach(), *group, "activations");
  if (!has_graph(partial)) return own;
  return with_history(std::move(own), partial, std::make_shared<GatherPositions>(*group));
}

torch::Tensor embed_over_ranks(const torch::Tensor& weight, const torch::Tensor& tokens,
                               std::int64_t vocabulary, const TensorGroup* group) {
  if (!cuts(group)) return torch::embedding(weight, tokens);
  TORCH_CHECK_INDEX(all_below(tokens, vocabulary), "a token is not below ", vocabulary);
  const auto [entries, mine] = own_targets(tokens, share_of(vocabulary, 0, group->share()));
  const auto found = torch::embedding(weight, entries);
  return leave_cut(found.masked_fill(mine.logical_not().unsqueeze(-1), 0), group);
}

CrossEntropy cross_entropy_over_ranks(const torch::Tensor& logits, const torch::Tensor& target,
                                      std::int64_t classes, double label_smoothing,
                                      const TensorGroup& group) {
  TORCH_CHECK_INDEX(all_below(target, classes), "a target is not below ", classes);
  const torch::Tensor values = logits.detach();
  const Share own = share_of(classes, 0, group.share());
  const OwnTargets targets = own_targets(target, own);
  const Rows rows = rows_of(values, targets, own, classes, group);
  auto losses = rows.log_sum - rows.of_target * (1 - label_smoothing);
  if (label_smoothing > 0) losses = losses - rows.mean * label_smoothing;
  CrossEntropy loss{losses.sum().to(logits.scalar_type()), rows.largest.eq(target).sum()};
  if (has_graph(logits))
    loss.sum = with_history(std::move(loss.sum), logits,
                            std::make_shared<CrossEntropyGradient>(
                                excess_of(values, targets, rows, label_smoothing, classes)));
  return loss;
}

}  // namespace muster::models
