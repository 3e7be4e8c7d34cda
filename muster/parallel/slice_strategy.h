#pragma once
// The strategies in which every rank runs whole slices through the whole model (slice_gradients.h);
// they differ in who keeps and applies what of the update. One thread.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/parallel/host_mirror.h"
#include "muster/parallel/model_strategy.h"
#include "muster/parallel/sharded_optimizer.h"
#include "muster/parallel/slice_gradients.h"

namespace muster::parallel {

class SliceStrategy : public ModelStrategy {
 public:
  Status evaluate(const data::StepBatch& batch, std::span<EvaluationTotals> by_slice) override {
    return slices_.evaluate(batch, by_slice);
  }
  Result<EvaluationTotals> combine(std::span<const EvaluationTotals> by_slice) override {
    return slices_.combine(by_slice);
  }
  std::vector<StateSlice> model_state() override;
  std::optional<Step> kept() const override { return slices_.kept(); }

  Status warm_up(const data::StepBatch& batch) override { return slices_.warm_up(batch); }
  models::Model& model() const noexcept override { return slices_.model(); }
  std::int32_t lanes() const noexcept override { return slices_.lanes(); }

 protected:
  SliceStrategy(std::unique_ptr<models::Model> model, SliceOptions options, Clock& clock)
      : clock_(clock), slices_(std::move(model), std::move(options), clock) {}

  SliceGradients& slices() noexcept { return slices_; }
  const SliceGradients& slices() const noexcept { return slices_; }
  // Lets whoever still reads the state finish, then runs `update`; both with their times.
  Status timed_update(const StepInput& input, StepReport& report,
                      const std::function<Status()>& update);
  void apply_statistics(const std::vector<at::Tensor>& statistics);
  StateSlice whole_slice(const std::string& name, const at::Tensor& tensor);
  HostMirror& mirror() noexcept { return mirror_; }  // of the tensors of the state
  OnLanes lanes_runner();                            // for as long as this lives

 private:
  Clock& clock_;
  SliceGradients slices_;
  HostMirror mirror_;
};

}  // namespace muster::parallel
