#pragma once
// For tests: a strategy that does nothing with what state it has.

#include "muster/parallel/strategy.h"

namespace muster::train {

class Still : public parallel::Strategy {
 public:
  Result<parallel::StepReport> step(const parallel::StepInput&) override {
    return parallel::StepReport();
  }
  Status enter(std::shared_ptr<comm::Communicator>, const comm::LeafOwners&) override {
    return ok();
  }
  std::optional<Step> kept() const override { return std::nullopt; }
  void fall_behind() override {}
  bool behind() const noexcept override { return false; }
  Status catch_up() override { return ok(); }
  Status evaluate(const data::StepBatch&, std::span<parallel::EvaluationTotals>) override {
    return ok();
  }
  Result<parallel::EvaluationTotals> combine(std::span<const parallel::EvaluationTotals>) override {
    return parallel::EvaluationTotals();
  }
  Status use_average(bool) override { return ok(); }
  void loaded(std::int64_t) override {}
};

}  // namespace muster::train
