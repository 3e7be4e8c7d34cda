#pragma once
// Ranks in one process, the parts of tensors that they hold, and tensors that differ from others by
// rounding only. For tests.

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "muster/comm/backend/loopback/loopback.h"
#include "muster/models/partition.h"

namespace muster::parallel {

// Each rank of a group on a thread of its own. Returns when all have returned.
inline void on_ranks(std::int32_t size,
                     const std::function<void(const std::shared_ptr<comm::Communicator>&)>& body) {
  const auto communicators = comm::create_loopback(size);
  std::vector<std::jthread> threads;
  for (const auto& communicator : communicators) threads.emplace_back([&] { body(communicator); });
}

inline at::Tensor part_of(const at::Tensor& whole, const models::TensorCut& cut) {
  if (!cut.is_part()) return whole;
  std::vector<at::Tensor> runs;
  for (const Share run : cut.runs) runs.push_back(whole.narrow(cut.axis, run.begin, run.size()));
  return torch::cat(runs, cut.axis);
}

inline void expect_close(const at::Tensor& found, const at::Tensor& wanted, double rounding,
                         const std::string& what) {
  ASSERT_EQ(found.sizes(), wanted.sizes()) << what;
  const double apart = (found - wanted).abs().max().item<double>();
  EXPECT_LT(apart, rounding * (1 + wanted.abs().max().item<double>())) << what;
}

}  // namespace muster::parallel
