#include "muster/models/experts_over_ranks.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <memory>
#include <utility>

#include "muster/models/custom_node.h"

namespace muster::models {
namespace {

using torch::Tensor;
using torch::autograd::variable_list;

std::vector<std::int64_t> row_sums(const Tensor& counts) {
  const Tensor sums = counts.sum(1);
  const auto* data = sums.const_data_ptr<std::int64_t>();
  return {data, data + sums.numel()};
}

// How many rows go where in a pass of all ranks.
struct Traffic {
  std::vector<std::int64_t> away;    // by rank: of its experts, from here
  std::vector<std::int64_t> here;    // by rank: of experts here, from there
  std::vector<std::int64_t> counts;  // [ranks, experts here]: the same by expert
};

Traffic traffic_of(std::span<const std::int64_t> counts, const ExpertGroup& group) {
  const Tensor away = torch::tensor(at::IntArrayRef(counts.data(), counts.size()), torch::kInt64)
                          .view({group.share().size, -1});
  const Tensor here = group.exchange_counts(away);
  const auto* each = here.const_data_ptr<std::int64_t>();
  return {row_sums(away), row_sums(here), {each, each + here.numel()}};
}

// What one expert here makes of the rows of one rank.
struct Answer {
  std::int32_t source = 0;
  std::size_t expert = 0;  // among those here
  Tensor rows, answer;     // the ends of a graph of their own; undefined: no rows
};

// In the place of the experts of all ranks, as a pass of this one sees them.
class ServedBack final : public torch::autograd::Node {
 public:
  // `none`: no rows, of their type.
  ServedBack(const ExpertGroup& group, Traffic traffic, const Tensor& none,
             std::vector<Answer> answers, std::vector<std::vector<Tensor>> trained)
      : group_(group),
        traffic_(std::move(traffic)),
        none_(none),
        answers_(std::move(answers)),
        trained_(std::move(trained)) {}

  std::string name() const override { return "ServedBack"; }
  void release_variables() override { answers_.clear(); }

 private:
  variable_list apply(variable_list&& gradients) override {
    const auto arrived = group_.exchange(gradients.front().split_with_sizes(traffic_.away),
                                         traffic_.here, "gradients of answers");
    std::vector<std::vector<Tensor>> parts(arrived.size());
    std::vector<std::int64_t> done(arrived.size());
    for (Answer& answer : answers_) {
      const auto source = static_cast<std::size_t>(answer.source);
      if (!answer.rows.defined()) {
        for (const Tensor& parameter : trained_[answer.expert])
          group_.found(parameter, answer.source, {});
        continue;
      }
      const std::int64_t count = answer.rows.size(0);
      parts[source].push_back(go_back(answer, arrived[source].narrow(0, done[source], count)));
      done[source] += count;
    }
    std::vector<Tensor> leaving;
    leaving.reserve(parts.size());
    for (std::size_t source = 0; source < parts.size(); ++source)
      leaving.push_back(parts[source].empty() ? none_ : torch::cat(parts[source]));
    variable_list found(num_outputs());  // of parameters: none on this way
    found.front() = torch::cat(group_.exchange(leaving, traffic_.away, "gradients of tokens"));
    return found;
  }

  // The gradient of the rows; those of parameters go to the group.
  Tensor go_back(Answer& answer, const Tensor& gradient) const {
    variable_list wanted{answer.rows};
    const std::vector<Tensor>& trained = trained_[answer.expert];
    wanted.insert(wanted.end(), trained.begin(), trained.end());
    const variable_list found = torch::autograd::grad({answer.answer}, wanted, {gradient},
                                                      std::nullopt, false, /*allow_unused=*/true);
    for (std::size_t p = 0; p < trained.size(); ++p)
      group_.found(trained[p], answer.source, found[p + 1]);
    answer = {};  // its graph is no longer needed
    return found.front();
  }

  const ExpertGroup& group_;
  const Traffic traffic_;
  const Tensor none_;
  std::vector<Answer> answers_;                     // by rank, then by expert
  const std::vector<std::vector<Tensor>> trained_;  // by expert here
};

class Service {
 public:
  Service(const ExpertsHere& here, bool with_graph) : here_(here), with_graph_(with_graph) {}

  // Of the rows of rank `source`, expert after expert; `counts` by expert here.
  Tensor answer(std::int32_t source, const Tensor& rows, std::span<const std::int64_t> counts) {
    std::vector<Tensor> parts;
    std::int64_t begin = 0;
    for (std::size_t e = 0; e < counts.size(); ++e) {
      answers_.push_back({source, e, {}, {}});
      if (counts[e] == 0) continue;
      const Tensor own = rows.narrow(0, begin, counts[e]).detach().requires_grad_(with_graph_);
      const Tensor answer = here_.compute(here_.experts.begin + static_cast<std::int64_t>(e), own);
      if (with_graph_) answers_.back() = {source, e, own, answer};
      parts.push_back(answer.detach());
      begin += counts[e];
    }
    if (!parts.empty()) return torch::cat(parts);
    const at::NoGradGuard no_graph;  // for its type
    return here_.compute(here_.experts.begin, rows);
  }

  std::vector<Answer> take() { return std::move(answers_); }

 private:
  const ExpertsHere& here_;
  const bool with_graph_;
  std::vector<Answer> answers_;
};

}  // namespace

Tensor compute_over_ranks(const Tensor& rows, std::span<const std::int64_t> counts,
                          const ExpertsHere& here, const ExpertGroup& group) {
  Traffic traffic = traffic_of(counts, group);
  const auto arrived =
      group.exchange(rows.detach().split_with_sizes(traffic.away), traffic.here, "tokens");
  const auto each = static_cast<std::size_t>(here.experts.size());
  Service service(here, at::GradMode::is_enabled());
  std::vector<Tensor> answers;
  answers.reserve(arrived.size());
  for (std::size_t source = 0; source < arrived.size(); ++source)
    answers.push_back(service.answer(static_cast<std::int32_t>(source), arrived[source],
                                     std::span(traffic.counts).subspan(source * each, each)));
  Tensor output = torch::cat(group.exchange(answers, traffic.away, "answers"));
  if (!at::GradMode::is_enabled()) return output;

  // Its way back is the parameters' as well, so that it is gone also where nobody asks for the
  // gradient of the rows.
  std::vector<std::vector<Tensor>> trained;
  variable_list inputs{rows};
  for (std::int64_t expert = here.experts.begin; expert < here.experts.end; ++expert) {
    trained.push_back(here.trained(expert));
    inputs.insert(inputs.end(), trained.back().begin(), trained.back().end());
  }
  const auto node = std::make_shared<ServedBack>(
      group, std::move(traffic), rows.detach().narrow(0, 0, 0), service.take(), std::move(trained));
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  torch::autograd::set_history(output, node);
  return output;
}

}  // namespace muster::models
