#pragma once
// Groups of ranks of which only the first is there: it computes as if the others had what it has,
// and notes what it would have told them. For measurements; threads may compute at once. A model
// that is spread over two groups has both write into the same notes.

#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/models/context_group.h"
#include "muster/models/expert_group.h"
#include "muster/models/tensor_group.h"
#include "muster/plan/model_profile.h"

namespace muster::app {

class RankNotes {
 public:
  // Since the last call.
  std::vector<plan::RankMessage> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(messages_, {});
  }
  void add(plan::RankMessage::Kind kind, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    messages_.push_back({kind, bytes});
  }

 private:
  std::mutex mutex_;
  std::vector<plan::RankMessage> messages_;
};
using RankNotesPtr = std::shared_ptr<RankNotes>;

// That hold a model's cut tensors between them.
class CountedRanks final : public models::TensorGroup {
 public:
  struct Cut {
    std::int32_t ranks = 2;
    bool sequence = false;
  };
  CountedRanks(Cut cut, RankNotesPtr notes) : cut_(cut), notes_(std::move(notes)) {}

  models::TensorShare share() const noexcept override { return {0, cut_.ranks}; }
  bool cuts_sequence() const noexcept override { return cut_.sequence; }

  torch::Tensor sum(const torch::Tensor& addend, std::string_view) const override {
    notes_->add(plan::RankMessage::Kind::kSum, addend.nbytes());
    return addend.detach().contiguous().clone();
  }
  torch::Tensor sum_own(const torch::Tensor& addends, std::string_view) const override {
    notes_->add(plan::RankMessage::Kind::kSumOwn, addends.nbytes());
    return addends.detach().select(0, 0).contiguous().clone();
  }
  torch::Tensor gather(const torch::Tensor& own, std::string_view) const override {
    notes_->add(plan::RankMessage::Kind::kGather, own.nbytes());
    const std::vector<torch::Tensor> all(static_cast<std::size_t>(cut_.ranks), own.detach());
    return torch::stack(all);
  }

 private:
  const Cut cut_;
  const RankNotesPtr notes_;
};

// That have some positions of every sequence each.
class CountedContext final : public models::ContextGroup {
 public:
  CountedContext(std::int32_t ranks, models::ContextAttention attention, RankNotesPtr notes)
      : ranks_(ranks), attention_(attention), notes_(std::move(notes)) {}

  models::TensorShare share() const noexcept override { return {0, ranks_}; }
  models::ContextAttention attention() const noexcept override { return attention_; }

  torch::Tensor exchange(const torch::Tensor& blocks, std::string_view) const override {
    const std::uint64_t own = blocks.nbytes() / static_cast<std::uint64_t>(ranks_);
    notes_->add(plan::RankMessage::Kind::kExchange, blocks.nbytes() - own);
    return blocks.detach().contiguous().clone();
  }
  std::unique_ptr<Arriving> pass_on(const torch::Tensor& tensor, std::uint32_t,
                                    std::string_view) const override {
    notes_->add(plan::RankMessage::Kind::kPassOn, tensor.nbytes());
    return std::make_unique<Arrived>(tensor.detach().contiguous().clone());
  }

 private:
  class Arrived final : public Arriving {
   public:
    explicit Arrived(torch::Tensor tensor) : tensor_(std::move(tensor)) {}
    torch::Tensor wait() override { return tensor_; }

   private:
    const torch::Tensor tensor_;
  };

  const std::int32_t ranks_;
  const models::ContextAttention attention_;
  const RankNotesPtr notes_;
};

// That hold the experts between them. The others route their rows as this one does its own; their
// rows are zeros.
class CountedExperts final : public models::ExpertGroup {
 public:
  CountedExperts(std::int32_t ranks, RankNotesPtr notes)
      : ranks_(ranks), notes_(std::move(notes)) {}

  models::TensorShare share() const noexcept override { return {0, ranks_}; }

  torch::Tensor exchange_counts(const torch::Tensor& counts) const override {
    notes_->add(plan::RankMessage::Kind::kExchange,
                counts.nbytes() - counts.nbytes() / static_cast<std::uint64_t>(ranks_));
    const std::vector<torch::Tensor> all(static_cast<std::size_t>(ranks_), counts.select(0, 0));
    return torch::stack(all);
  }
  std::vector<torch::Tensor> exchange(const std::vector<torch::Tensor>& leaving,
                                      const std::vector<std::int64_t>& arriving,
                                      std::string_view) const override {
    std::vector<torch::Tensor> arrived = {leaving.front().detach()};
    std::uint64_t bytes = 0;
    for (std::size_t rank = 1; rank < leaving.size(); ++rank) {
      bytes += leaving[rank].nbytes();
      arrived.push_back(
          torch::zeros({arriving[rank], leaving[rank].size(1)}, leaving[rank].options()));
    }
    notes_->add(plan::RankMessage::Kind::kExchange, bytes);
    return arrived;
  }
  void found(const torch::Tensor&, std::int32_t, const torch::Tensor&) const override {}

 private:
  const std::int32_t ranks_;
  const RankNotesPtr notes_;
};

}  // namespace muster::app
