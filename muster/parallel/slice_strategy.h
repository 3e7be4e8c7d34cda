#pragma once
// The strategies in which every rank runs whole slices through the whole model (slice_gradients.h);
// they differ in who keeps and applies what of the update. One thread.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/parallel/slice_gradients.h"
#include "muster/parallel/strategy.h"

namespace muster::parallel {

class SliceStrategy : public Strategy {
 public:
  Status evaluate(const data::StepBatch& batch, std::span<EvaluationTotals> by_slice) override {
    return slices_.evaluate(batch, by_slice);
  }
  Result<EvaluationTotals> combine(std::span<const EvaluationTotals> by_slice) override {
    return slices_.combine(by_slice);
  }
  std::vector<StateSlice> model_state() override;
  std::optional<Step> kept() const override { return slices_.kept(); }

  // As SliceGradients::warm_up.
  Status warm_up(const data::StepBatch& batch) { return slices_.warm_up(batch); }

  // Of the optimizer's state, on each of so many ranks.
  virtual std::uint64_t optimizer_bytes(std::int32_t ranks) = 0;
  models::Model& model() const noexcept { return slices_.model(); }
  std::int32_t lanes() const noexcept { return slices_.lanes(); }

 protected:
  SliceStrategy(std::unique_ptr<models::Model> model, SliceOptions options, Clock& clock)
      : clock_(clock), slices_(std::move(model), std::move(options), clock) {}

  SliceGradients& slices() noexcept { return slices_; }
  // Lets whoever still reads the state finish, then runs `update`; both with their times.
  Status timed_update(const StepInput& input, StepReport& report,
                      const std::function<Status()>& update);
  void apply_statistics(const std::vector<at::Tensor>& statistics);
  static StateSlice whole_slice(const std::string& name, const at::Tensor& tensor);

 private:
  Clock& clock_;
  SliceGradients slices_;
};

}  // namespace muster::parallel
