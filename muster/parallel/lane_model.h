#pragma once
// A lane's own copy of the model: shares parameters and statistics with the other lanes, and hands
// every gradient on the moment autograd has it, in the middle of backward.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "muster/models/model.h"
#include "muster/parallel/examples.h"
#include "muster/parallel/gradient_sink.h"

namespace muster::parallel {

// What one pass over one unit's (micro-)batch is.
struct LanePass {
  std::int32_t unit = 0;
  std::int32_t pass = 0;
  std::int32_t passes = 1;
  double weight = 1;        // of a target: 1 / targets in the global batch
  double sample_share = 1;  // of this pass's samples in the global batch: weighs its statistics
                            // and auxiliary losses
  double loss_scale = 1;    // by which gradients are too large
  RandomStream random;      // of this pass
};

class LaneModel {
 public:
  LaneModel(std::unique_ptr<models::Model> model, models::Compute compute);
  ~LaneModel();

  // Where gradients go from now on; outlives its use. Slot 0 is for what accompanies the gradients
  // (see `extras`), slot 1 + i for parameter `parameters - 1 - i`: the order in which backward
  // finishes them.
  void use(GradientSink& sink) noexcept { sink_ = &sink; }

  // Told of every pass before it begins ("forward", "backward") and, with nothing, once it is over.
  using Watch = std::function<void(std::string_view pass, std::int32_t unit)>;
  void watch(Watch watch) { watch_ = std::move(watch); }

  models::Model& model() noexcept { return *model_; }

  // Forward and backward. Adds slot 0, as extras.h has it, after forward, and
  // every parameter's gradient during backward. `notes`: what the unit has to say besides.
  struct Times {
    Duration forward{};
    Duration backward{};
  };
  Times run(const Examples& examples, const LanePass& pass, std::span<const float> notes,
            const Clock& clock);

  // Forward and backward for nothing: libraries compile kernels at the first call.
  void warm_up(const Examples& examples);

  // A unit without samples adds zeros everywhere.
  void run_empty(std::int32_t unit, std::span<const float> notes);

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
  Watch watch_ = [](std::string_view, std::int32_t) {};
  std::vector<float> extras_;
  std::vector<bool> delivered_;  // by parameter, in this pass
  std::vector<float> zeros_;     // as long as the longest slot
  const LanePass* current_ = nullptr;
};

}  // namespace muster::parallel
