#pragma once
// Tokens on their way to experts and back, as copies of rows: nothing is added up in an order that
// could differ, on any device.

#include <torch/types.h>

#include <cstdint>

#include "muster/models/routing.h"

namespace muster::models {

// Row numbers for one routing of one batch of tokens.
class Dispatch {
 public:
  // `device`: that of the tokens.
  Dispatch(const Routing& routing, std::int64_t per_token, torch::Device device);

  // `tokens` [tokens, width] to one row for each assignment that is carried out, expert after
  // expert: [rows, width].
  torch::Tensor to_experts(const torch::Tensor& tokens) const;
  // `rows` [rows, width] to [tokens, per_token, width]: zeros where the assignment was dropped.
  torch::Tensor to_tokens(const torch::Tensor& rows) const;

 private:
  std::int64_t per_token_;
  torch::Tensor token_of_row_;       // i64 [rows]
  torch::Tensor assignment_of_row_;  // i64 [rows]
  torch::Tensor row_of_assignment_;  // i64 [tokens · per_token]; the number of rows where dropped
};

}  // namespace muster::models
