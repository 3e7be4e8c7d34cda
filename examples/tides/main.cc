// tides: forecasts the water level of a harbour from the hours before, trained by muster.

#include <muster/app.h>

#include "datum.h"
#include "jitter.h"
#include "level_file.h"
#include "tide_net.h"

namespace {

// The squared error of small misses, the plain one of large ones (Huber 1964).
muster::models::Measure huber(const muster::Options& options) {
  namespace F = torch::nn::functional;
  const auto each =
      F::HuberLossFuncOptions().reduction(torch::kNone).delta(options.number("delta"));
  return [each](const torch::Tensor& outputs, const torch::Tensor& levels) {
    return F::huber_loss(outputs, levels, each);
  };
}

muster::models::Measure miss_in_cm(const muster::Options&) {
  return [](const torch::Tensor& outputs, const torch::Tensor& levels) {
    return (outputs - levels).abs() * 100;
  };
}

}  // namespace

int main(int argc, char** argv) {
  muster::App app;
  app.add_model(
      "tide_net",
      {"A layer of tanh over the hours before.", {{"width", std::int64_t{32}, "Units.", 1}}},
      tides::make_net);
  app.add_loss("huber",
               {"Huber's loss.", {{"delta", 0.1, "Where it becomes linear, in metres.", 1e-6}}},
               huber);
  app.add_metric("miss_cm", muster::Better::kLower, {"Mean miss, in centimetres."}, miss_in_cm);
  app.add_data("levels",
               {"Hourly water levels, a line each; the last ones are for validation.",
                {{"hours", std::int64_t{48}, "Seen before each forecast.", 1},
                 {"lead", std::int64_t{6}, "From the last hour seen to the one forecast.", 1}}},
               tides::open_levels);
  app.add_transform("datum",
                    {"Levels above a datum.", {{"metres", 0.0, "Where that is, in metres."}}},
                    tides::make_datum);
  app.add_augmentation("jitter",
                       {"Noise of a gauge.", {{"metres", 0.02, "Its standard deviation.", 0}}},
                       tides::make_jitter);
  return app.run(argc, argv);
}
