#pragma once
// A lane that holds the whole model: one graph from the input to the loss. Hands every gradient on
// the moment autograd has it, in the middle of backward.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "muster/models/model.h"
#include "muster/parallel/lane.h"

namespace muster::parallel {

class LaneModel final : public Lane {
 public:
  LaneModel(std::unique_ptr<models::Model> model, models::Compute compute);
  ~LaneModel() override;

  void use(GradientSink& sink) noexcept override { sink_ = &sink; }
  models::Model& model() noexcept override { return *model_; }
  Result<Times> run(const Examples& examples, const LanePass& pass, std::span<const float> notes,
                    const Clock& clock) override;
  void run_empty(std::int32_t unit, std::span<const float> notes) override;
  void warm_up(const Examples& examples) override;

  static std::vector<std::int64_t> slot_counts(const models::Model& model);

 private:
  models::LossSum forward(const Examples& examples, const LanePass& pass,
                          std::vector<at::Tensor>& statistics);
  void add_extras(const models::LossSum& loss, const std::vector<at::Tensor>& statistics,
                  const LanePass& pass, std::span<const float> notes);
  void add_missing(const LanePass& pass);
  void deliver(std::size_t parameter, at::Tensor gradient);

  std::unique_ptr<models::Model> model_;
  const models::Compute compute_;
  GradientSink* sink_ = nullptr;
  std::vector<float> extras_;
  std::vector<bool> delivered_;  // by parameter, in this pass
  std::vector<float> zeros_;     // as long as the longest that has been missing
  const LanePass* current_ = nullptr;
};

}  // namespace muster::parallel
