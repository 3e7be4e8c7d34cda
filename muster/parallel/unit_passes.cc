#include "muster/parallel/unit_passes.h"

#include <algorithm>

#include "muster/base/round_up.h"

namespace muster::parallel {
namespace {

std::int64_t targets_per_sample(const Examples& examples) {
  return c10::multiply_integers(examples.targets.sizes().slice(1));
}

}  // namespace

std::vector<UnitPass> passes_of(const Examples& examples, std::int32_t unit, SliceIndex first_slice,
                                const StepInput& input, const PassOptions& options) {
  if (!examples.inputs.defined()) return {};
  const std::int64_t samples = examples.samples();
  const std::int64_t limit = options.micro_batch_size > 0 ? options.micro_batch_size : samples;
  const std::int64_t count = samples == 0 ? 1 : ceil_div(samples, limit);
  const auto batch = static_cast<double>(input.batch.samples);
  const RandomStream random(options.seed, "forward", static_cast<std::uint64_t>(to_int(input.step)),
                            static_cast<std::uint64_t>(to_int(first_slice)));
  std::vector<UnitPass> passes;
  for (std::int64_t pass = 0; pass < count; ++pass) {
    const Examples part = narrow(examples, pass * limit, std::min(samples, (pass + 1) * limit));
    passes.push_back({part,
                      {.unit = unit,
                       .pass = static_cast<std::int32_t>(pass),
                       .passes = static_cast<std::int32_t>(count),
                       .weight = 1.0 / (batch * static_cast<double>(targets_per_sample(part))),
                       .sample_share = static_cast<double>(part.samples()) / batch,
                       .loss_scale = input.loss_scale.value_or(1),
                       .random = random.fork(static_cast<std::uint64_t>(pass))}});
  }
  return passes;
}

}  // namespace muster::parallel
