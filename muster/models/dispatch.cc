#include "muster/models/dispatch.h"

#include <torch/csrc/autograd/custom_function.h>

#include <vector>

namespace muster::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

torch::Tensor indices(std::vector<std::int64_t>& values, torch::Device device) {
  return torch::from_blob(values.data(), {std::ssize(values)}, torch::kInt64)
      .to(device, torch::kInt64, /*non_blocking=*/false, /*copy=*/true);
}

// Row places[i] of `rows` at i; zeros where that is one behind the last.
torch::Tensor place(const torch::Tensor& rows, const torch::Tensor& places) {
  if (rows.size(0) == places.size(0)) return rows.index_select(0, places);
  const auto nothing = torch::zeros({1, rows.size(1)}, rows.options());
  return torch::cat({rows, nothing}).index_select(0, places);
}

class ToExperts final : public torch::autograd::Function<ToExperts> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& tokens,
                               const torch::Tensor& token_of_row,
                               const torch::Tensor& row_of_assignment) {
    context->save_for_backward({row_of_assignment});
    context->saved_data["tokens"] = tokens.size(0);
    return tokens.index_select(0, token_of_row);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto placed = place(gradients[0], context->get_saved_variables()[0]);
    const std::int64_t tokens = context->saved_data["tokens"].toInt();
    const std::int64_t per_token = tokens == 0 ? 1 : placed.size(0) / tokens;
    return {placed.view({tokens, per_token, placed.size(1)}).sum(1), {}, {}};
  }
};

class ToTokens final : public torch::autograd::Function<ToTokens> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& rows,
                               const torch::Tensor& row_of_assignment,
                               const torch::Tensor& assignment_of_row) {
    context->save_for_backward({assignment_of_row});
    return place(rows, row_of_assignment);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {gradients[0].index_select(0, context->get_saved_variables()[0]), {}, {}};
  }
};

}  // namespace

Dispatch::Dispatch(const Routing& routing, std::int64_t per_token, torch::Device device)
    : per_token_(per_token) {
  std::vector<std::int64_t> order = routing.order, tokens = routing.order;
  for (std::int64_t& token : tokens) token /= per_token;
  std::vector<std::int64_t> places(routing.chosen.size(), std::ssize(order));
  for (std::int64_t row = 0; row < std::ssize(order); ++row) places[order[row]] = row;
  token_of_row_ = indices(tokens, device);
  assignment_of_row_ = indices(order, device);
  row_of_assignment_ = indices(places, device);
}

torch::Tensor Dispatch::to_experts(const torch::Tensor& tokens) const {
  return ToExperts::apply(tokens, token_of_row_, row_of_assignment_);
}

torch::Tensor Dispatch::to_tokens(const torch::Tensor& rows) const {
  return ToTokens::apply(rows, row_of_assignment_, assignment_of_row_)
      .view({row_of_assignment_.size(0) / per_token_, per_token_, rows.size(1)});
}

}  // namespace muster::models
