#pragma once
// A lane: one thread's own copy of the model, which shares parameters and statistics with those of
// the other lanes, and computes one unit (slice of the batch) at a time.

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "muster/base/clock.h"
#include "muster/base/random.h"
#include "muster/base/result.h"
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
  const models::BatchGroup* batch = nullptr;  // as models::PassContext has it
};

class Lane {
 public:
  virtual ~Lane() = default;

  // Where gradients go from now on; outlives its use. Slot 0 is for what accompanies the gradients
  // (see `extras`), slot 1 + i for parameter `parameters - 1 - i`: the order in which backward
  // finishes them.
  virtual void use(GradientSink& sink) noexcept = 0;

  // Told of every pass before it begins ("forward", "backward") and, with nothing, once it is over.
  using Watch = std::function<void(std::string_view pass, std::int32_t unit)>;
  void watch(Watch watch) { watch_ = std::move(watch); }

  virtual models::Model& model() noexcept = 0;

  // Forward and backward. Adds slot 0, as extras.h has it, after forward, and every parameter's
  // gradient during backward. `notes`: what the unit has to say besides.
  struct Times {
    Duration forward{};
    Duration backward{};
  };
  virtual Result<Times> run(const Examples& examples, const LanePass& pass,
                            std::span<const float> notes, const Clock& clock) = 0;

  // A unit without samples adds zeros everywhere.
  virtual void run_empty(std::int32_t unit, std::span<const float> notes) = 0;

  // Forward and backward for nothing: libraries compile kernels at the first call.
  virtual void warm_up(const Examples& examples) = 0;

 protected:
  void tell(std::string_view pass, std::int32_t unit) const { watch_(pass, unit); }

 private:
  Watch watch_ = [](std::string_view, std::int32_t) {};
};

}  // namespace muster::parallel
