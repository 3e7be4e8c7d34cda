#include "muster/models/context_attention.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <array>
#include <memory>
#include <utility>

#include "muster/models/custom_node.h"
#include "muster/models/precision.h"

namespace muster::models {
namespace {

using torch::Tensor;
using torch::autograd::variable_list;

constexpr std::uint32_t kValues = 0, kGradients = 1;  // streams

// `blocks` exchanged; backward exchanges the gradients.
class ExchangeBack final : public torch::autograd::Node {
 public:
  explicit ExchangeBack(const ContextGroup& group) : group_(group) {}
  std::string name() const override { return "ExchangeBack"; }

 private:
  variable_list apply(variable_list&& gradients) override {
    if (!gradients.front().defined()) return variable_list(1);
    return {group_.exchange(gradients.front(), "gradients of heads")};
  }
  const ContextGroup& group_;
};

Tensor exchange(const Tensor& blocks, const ContextGroup& group) {
  Tensor output = group.exchange(blocks.detach(), "heads");
  if (!has_graph(blocks)) return output;
  return with_history(std::move(output), blocks, std::make_shared<ExchangeBack>(group));
}

// [n, heads, t, d] as [ranks, n, heads of each, t, d].
Tensor heads_by_rank(const Tensor& heads, std::int64_t ranks) {
  TORCH_CHECK(heads.size(1) % ranks == 0, heads.size(1), " heads cannot be dealt to ", ranks,
              " ranks");
  return heads.unflatten(1, {ranks, -1}).transpose(0, 1);
}

// Each key head as often as it serves query heads.
Tensor repeated(const Tensor& heads, std::int64_t times) {
  return times == 1 ? heads : heads.repeat_interleave(times, 1);
}

Tensor summed_by_key(const Tensor& gradient, std::int64_t times) {
  return times == 1 ? gradient : gradient.unflatten(1, {-1, times}).sum(2);
}

// A partial result, in f32 at least: what comes out for some keys, and the log of the sum of
// exponentials [n, heads, positions].
struct Partial {
  Tensor output, log_sum;
};

// What the kernel reads of [n, heads, positions, d]: which queries and keys meet at a turn.
struct Meeting {
  Share queries, keys;
  bool causal = false;  // else all meet
};

// Turn `turn` of `share`: keys of the rank that is so many before it. Of a rank before this one
// only the front run is in the past, which is so for both runs here; of one behind it both are in
// the past of the back run here, none of the front one.
Meeting meeting_of(TensorShare share, std::int32_t turn, std::int64_t positions) {
  const std::int64_t half = positions / 2;
  if (turn == 0) return {{0, positions}, {0, positions}, true};
  if (turn <= share.rank) return {{0, positions}, {0, half}};
  return {{half, positions}, {0, positions}};
}

Tensor cut(const Tensor& heads, Share positions) {
  return heads.narrow(2, positions.begin, positions.size());
}

Partial attend(const AttentionHeads& heads, const Meeting& meeting) {
  const std::int64_t times = heads.query.size(1) / heads.key.size(1);
  auto [output, log_sum] = at::_scaled_dot_product_flash_attention_for_cpu(
      cut(heads.query, meeting.queries), repeated(cut(heads.key, meeting.keys), times),
      repeated(cut(heads.value, meeting.keys), times), 0.0, meeting.causal);
  return {widened(output), log_sum};
}

// Adds a partial result for the last positions of `whole`, in place.
void merge(Partial& whole, const Partial& part, Share queries) {
  const Tensor output = cut(whole.output, queries);
  const Tensor log_sum = cut(whole.log_sum, queries);
  const Tensor sum = at::logaddexp(log_sum, part.log_sum);
  output.mul_((log_sum - sum).exp_().unsqueeze(-1));
  output.add_(part.output * (part.log_sum - sum).exp_().unsqueeze(-1));
  log_sum.copy_(sum);
}

// Keys above values: one message.
Tensor stacked(const AttentionHeads& heads) { return at::stack({heads.key, heads.value}); }

Partial ring_forward(const AttentionHeads& own, const ContextGroup& group) {
  const TensorShare share = group.share();
  Tensor here = stacked(own);
  Partial whole;
  for (std::int32_t turn = 0; turn < share.size; ++turn) {
    std::unique_ptr<ContextGroup::Arriving> next;
    if (turn + 1 < share.size) next = group.pass_on(here, kValues, "keys and values");
    const Meeting meeting = meeting_of(share, turn, own.query.size(2));
    Partial part = attend({own.query, here[0], here[1]}, meeting);
    if (turn == 0)
      whole = {part.output.clone(), part.log_sum.clone()};
    else
      merge(whole, part, meeting.queries);
    if (next) here = next->wait();
  }
  return whole;
}

// What backward knows of forward.
struct RingSaved {
  AttentionHeads heads;
  Tensor output, log_sum;
};

// The gradients of one turn: of the queries that meet, and of keys and values, stacked.
struct TurnGradients {
  Tensor query, keys_and_values;
};

TurnGradients turn_backward(const RingSaved& saved, const Tensor& here, const Tensor& gradient,
                            const Meeting& meeting) {
  const std::int64_t times = saved.heads.query.size(1) / here.size(2);
  auto [query, key, value] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      cut(gradient, meeting.queries), cut(saved.heads.query, meeting.queries),
      repeated(cut(here[0], meeting.keys), times), repeated(cut(here[1], meeting.keys), times),
      cut(saved.output, meeting.queries), cut(saved.log_sum, meeting.queries), 0.0, meeting.causal);
  return {widened(query),
          at::stack({summed_by_key(widened(key), times), summed_by_key(widened(value), times)})};
}

// Gradients of a rank's keys and values travel behind these, from the rank after it on; it adds its
// own when they come home.
AttentionHeads ring_backward(const RingSaved& saved, const Tensor& gradient,
                             const ContextGroup& group) {
  const TensorShare share = group.share();
  const std::int64_t positions = saved.heads.query.size(2);
  const TurnGradients own =
      turn_backward(saved, stacked(saved.heads), gradient, meeting_of(share, 0, positions));
  Tensor here = stacked(saved.heads), travelling;
  Tensor query = own.query.clone();
  for (std::int32_t turn = 1; turn < share.size; ++turn) {
    here = group.pass_on(here, kValues, "keys and values")->wait();
    std::unique_ptr<ContextGroup::Arriving> sums;
    if (turn > 1) sums = group.pass_on(travelling, kGradients, "gradients of keys and values");
    const Meeting meeting = meeting_of(share, turn, positions);
    const TurnGradients part = turn_backward(saved, here, gradient, meeting);
    cut(query, meeting.queries).add_(part.query);
    travelling = sums ? sums->wait() : at::zeros_like(own.keys_and_values);
    travelling.narrow(3, meeting.keys.begin, meeting.keys.size()).add_(part.keys_and_values);
  }
  Tensor sum = own.keys_and_values;
  if (share.size > 1)
    sum = group.pass_on(travelling, kGradients, "gradients of keys and values")->wait() + sum;
  const auto type = saved.heads.query.scalar_type();
  return {query.to(type), sum[0].to(type), sum[1].to(type)};
}

class RingBack final : public torch::autograd::Node {
 public:
  RingBack(const AttentionHeads& heads, const Tensor& log_sum, const ContextGroup& group)
      : group_(group),
        saved_{{{heads.query, false}, {heads.key, false}, {heads.value, false}, {log_sum, false}}} {
    set_next_edges(torch::autograd::collect_next_edges(heads.query, heads.key, heads.value));
  }
  // It is this node's own output.
  void save_output(const Tensor& output) { output_ = {output, true}; }
  std::string name() const override { return "RingBack"; }
  void release_variables() override {
    for (auto& one : saved_) one.reset_data();
    output_.reset_data();
  }

 private:
  variable_list apply(variable_list&& gradients) override {
    if (!gradients.front().defined()) return variable_list(3);
    const at::NoGradGuard no_grad;
    const RingSaved saved{{saved_[0].unpack(), saved_[1].unpack(), saved_[2].unpack()},
                          output_.unpack(shared_from_this()),
                          saved_[3].unpack()};
    const AttentionHeads found = ring_backward(saved, gradients.front(), group_);
    return {found.query, found.key, found.value};
  }

  const ContextGroup& group_;
  std::array<torch::autograd::SavedVariable, 4> saved_;
  torch::autograd::SavedVariable output_;
};

}  // namespace

std::vector<Share> neighbouring_positions(std::int64_t positions, TensorShare share) {
  TORCH_CHECK(positions % share.size == 0, positions, " positions cannot be dealt to ", share.size,
              " ranks");
  return {even_share(positions, share.size, share.rank)};
}

std::vector<Share> zigzag_positions(std::int64_t positions, TensorShare share) {
  const std::int64_t runs = 2 * share.size;
  TORCH_CHECK(positions % runs == 0, positions, " positions cannot be dealt to ", share.size,
              " ranks, two runs each");
  return {even_share(positions, runs, share.rank),
          even_share(positions, runs, runs - 1 - share.rank)};
}

torch::Tensor ulysses_attention(const AttentionHeads& heads, const ContextGroup& group) {
  const std::int64_t ranks = group.share().size;
  const std::int64_t queries = heads.query.size(1) / ranks, keys = heads.key.size(1) / ranks;
  const Tensor blocks = at::cat({heads_by_rank(heads.query, ranks), heads_by_rank(heads.key, ranks),
                                 heads_by_rank(heads.value, ranks)},
                                2);
  // From rank r its positions, which come r-th: [n, heads here, all positions, d].
  const Tensor whole = exchange(blocks, group).permute({1, 2, 0, 3, 4}).flatten(2, 3);
  const auto mixed = at::scaled_dot_product_attention(
      whole.narrow(1, 0, queries), whole.narrow(1, queries, keys),
      whole.narrow(1, queries + keys, keys), {}, 0.0, /*is_causal=*/true, std::nullopt,
      /*enable_gqa=*/queries != keys);
  const Tensor back = mixed.unflatten(2, {ranks, -1}).permute({2, 0, 1, 3, 4});
  return exchange(back, group).transpose(0, 1).flatten(1, 2);
}

torch::Tensor ring_attention(const AttentionHeads& heads, const ContextGroup& group) {
  TORCH_CHECK(heads.query.size(2) % 2 == 0, "a rank has two runs of as many positions");
  const AttentionHeads values{heads.query.detach(), heads.key.detach(), heads.value.detach()};
  const Partial whole = ring_forward(values, group);
  Tensor output = whole.output.to(heads.query.scalar_type());
  if (!has_graph(heads.query) && !has_graph(heads.key) && !has_graph(heads.value)) return output;
  const auto node = std::make_shared<RingBack>(heads, whole.log_sum, group);
  torch::autograd::set_history(output, node);
  node->save_output(output);
  return output;
}

torch::Tensor context_attention(const AttentionHeads& heads, const ContextGroup& group) {
  return group.attention() == ContextAttention::kRing ? ring_attention(heads, group)
                                                      : ulysses_attention(heads, group);
}

}  // namespace muster::models
