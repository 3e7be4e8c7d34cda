#pragma once
// What rides with the gradients of a unit in slot 0, as floats that sum over units: [loss, correct,
// flags…, roll…, statistics…]. One layout for all strategies.

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "muster/base/result.h"
#include "muster/data/batch.h"
#include "muster/models/model.h"
#include "muster/parallel/flags.h"
#include "muster/parallel/strategy.h"

namespace muster::parallel {

// What a unit has to say besides its loss and statistics: its rank's flags, its samples' marks.
inline constexpr std::size_t kNotes = Flags::size() + data::kRollLimbs;
std::vector<float> notes_of(const Flags& flags, const data::RollLimbs& roll);

std::size_t extra_count(const models::Model& model);

// `loss` and `correct`: weighted. `notes`: empty but in the first pass of a unit. `share`: of the
// pass's samples in the global batch, weighs the statistics.
void write_extras(std::vector<float>& extras, const models::Model& model, double loss,
                  double correct, std::span<const float> notes,
                  const std::vector<at::Tensor>& statistics, double share);
// Of a unit without samples.
void write_empty_extras(std::vector<float>& extras, const models::Model& model,
                        std::span<const float> notes);

// From the sum over all units of all ranks. kInternal where it does not hold every sample of the
// batch exactly once.
Status read_extras(std::span<const float> extras, const StepInput& input, StepReport& report);
// Over the sums, in the model's order.
std::vector<at::Tensor> statistics_in(std::span<float> extras, const models::Model& model);

}  // namespace muster::parallel
