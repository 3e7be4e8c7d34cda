#pragma once
// Synchronous data parallelism: every rank holds the whole model, computes its slices of the global
// batch (slice_gradients.h), and applies the same summed gradient.

#include <memory>
#include <optional>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/comm/communicator.h"
#include "muster/models/model.h"
#include "muster/optim/optimizer.h"
#include "muster/parallel/slice_gradients.h"
#include "muster/parallel/slice_strategy.h"

namespace muster::parallel {

class DataParallel : public SliceStrategy {
 public:
  // `model` is initialised alike on every rank; the strategy owns it from here. It steps once it
  // has entered a generation.
  DataParallel(std::unique_ptr<models::Model> model, std::unique_ptr<optim::Optimizer> optimizer,
               SliceOptions options, Clock& clock);

  Result<StepReport> step(const StepInput& input) override;
  std::vector<StateSlice> optimizer_state() override;
  void loaded(std::int64_t updates) override;
  std::uint64_t optimizer_bytes(std::int32_t ranks) override;
  Status enter(std::shared_ptr<comm::Communicator> communicator,
               const comm::LeafOwners& owners) override;
  void fall_behind() override;
  bool behind() const noexcept override { return behind_; }
  Status catch_up() override;
  Status use_average(bool average) override;

 private:
  struct Update {
    double learning_rate = 1;
    double divisor = 1;                  // of the gradients
    std::vector<at::Tensor> gradients;   // of parameters
    std::vector<at::Tensor> statistics;  // of the batch
  };
  std::vector<at::Tensor> gradients_over_sums();  // by parameter; in a generation
  Status swap_parameters(const std::vector<at::Tensor>& averages);
  Result<std::vector<double>> squared_norms();
  Status apply(const Update& update);

  const std::unique_ptr<optim::Optimizer> optimizer_;
  std::vector<at::Tensor> gradients_;  // of parameters, over the exchange's sums
  bool behind_ = false;
  bool uses_average_ = false;
  std::vector<Update> missed_;
};

}  // namespace muster::parallel
