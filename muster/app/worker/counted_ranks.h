#pragma once
// A tensor group of which only the first rank is there: it computes as if the others had what it
// has, and notes what it would have told them. For measurements; one thread.

#include <string_view>
#include <utility>
#include <vector>

#include "muster/models/tensor_group.h"
#include "muster/plan/model_profile.h"

namespace muster::app {

class CountedRanks final : public models::TensorGroup {
 public:
  struct Cut {
    std::int32_t ranks = 2;
    bool sequence = false;
  };
  explicit CountedRanks(Cut cut) : cut_(cut) {}

  models::TensorShare share() const noexcept override { return {0, cut_.ranks}; }
  bool cuts_sequence() const noexcept override { return cut_.sequence; }

  torch::Tensor sum(const torch::Tensor& addend, std::string_view) const override {
    note(plan::RankMessage::Kind::kSum, addend);
    return addend.detach().contiguous().clone();
  }
  torch::Tensor sum_own(const torch::Tensor& addends, std::string_view) const override {
    note(plan::RankMessage::Kind::kSumOwn, addends);
    return addends.detach().select(0, 0).contiguous().clone();
  }
  torch::Tensor gather(const torch::Tensor& own, std::string_view) const override {
    note(plan::RankMessage::Kind::kGather, own);
    const std::vector<torch::Tensor> all(static_cast<std::size_t>(cut_.ranks), own.detach());
    return torch::stack(all);
  }

  // Since the last call.
  std::vector<plan::RankMessage> take() const { return std::exchange(messages_, {}); }

 private:
  void note(plan::RankMessage::Kind kind, const torch::Tensor& tensor) const {
    messages_.push_back({kind, tensor.nbytes()});
  }

  const Cut cut_;
  mutable std::vector<plan::RankMessage> messages_;
};

}  // namespace muster::app
