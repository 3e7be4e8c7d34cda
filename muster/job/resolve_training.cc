// How long, and the batch identity: global = micro × accumulation × virtual workers. Where the
// global batch is no multiple of virtual_workers, slices differ by one sample and the largest one
// counts.
#include <fmt/format.h>

#include <tuple>

#include "muster/base/round_up.h"
#include "muster/job/draft.h"
#include "muster/job/limits.h"

namespace muster::job {
namespace {

constexpr std::string_view kEpochs = "training.epochs";
constexpr std::string_view kSteps = "training.max_steps";
constexpr std::string_view kGlobal = "training.global_batch_size";
constexpr std::string_view kMicro = "training.micro_batch_size";
constexpr std::string_view kAccumulation = "training.gradient_accumulation_steps";
constexpr std::string_view kVirtual = "training.virtual_workers";

// Whether max_steps is written behind epochs, where both are.
bool are_steps_last(const Draft& draft) {
  const auto steps = draft.assigned.find(kSteps), epochs = draft.assigned.find(kEpochs);
  if (steps == draft.assigned.end() || epochs == draft.assigned.end()) return false;
  const auto where = [](const Place& place) {
    return std::tuple(place.source->order, place.line, place.column);
  };
  return where(steps->second.place) > where(epochs->second.place);
}

// `max_steps: none` is the default, and says no more than leaving it out.
void resolve_length(Draft& draft) {
  auto& training = draft.spec.training;
  if (training.epochs || training.max_steps) return;
  if (!draft.given(kEpochs)) {
    training.epochs = 1;
    return draft.derive(kEpochs, "neither epochs nor max_steps is given");
  }
  const bool steps_last = are_steps_last(draft);
  draft.complain({steps_last ? kSteps : kEpochs, steps_last ? kEpochs : kSteps},
                 "training.epochs and training.max_steps are both none: one of the two must say "
                 "how long to train",
                 "for example `epochs: 10`; where both are left out it is 1 epoch");
}

void derive_global(Draft& draft) {
  auto& training = draft.spec.training;
  if (!draft.given(kAccumulation)) training.gradient_accumulation_steps = 1;
  training.global_batch_size =
      training.micro_batch_size * training.gradient_accumulation_steps * training.virtual_workers;
  draft.derive(kGlobal,
               fmt::format("{} × {} × {}", training.micro_batch_size,
                           training.gradient_accumulation_steps, training.virtual_workers));
  if (training.global_batch_size > kMostSamples)
    draft.complain({kMicro, kAccumulation, kVirtual},
                   fmt::format("{} × {} × {} samples a step are more than {}", draft.shown(kMicro),
                               draft.shown(kAccumulation), draft.shown(kVirtual), kMostSamples),
                   "make one of the three smaller");
}

// The other factor of `slice` beside `known`; complains where there is none.
std::int64_t derive_factor(Draft& draft, std::string_view known, std::int64_t known_value,
                           std::string_view wanted, std::int64_t slice) {
  if (slice % known_value != 0) {
    draft.complain({known, kGlobal, kVirtual},
                   fmt::format("{} {} does not divide the {} samples of a slice", known,
                               draft.shown(known), slice),
                   fmt::format("a slice is {} {} / {} {}", kGlobal, draft.shown(kGlobal), kVirtual,
                               draft.shown(kVirtual)));
    return 1;
  }
  draft.derive(wanted, fmt::format("{} samples of a slice / {}", slice, known_value));
  return slice / known_value;
}

void check_identity(Draft& draft, std::int64_t slice) {
  const auto& training = draft.spec.training;
  if (training.micro_batch_size * training.gradient_accumulation_steps == slice) return;
  draft.complain({kGlobal, kMicro, kAccumulation, kVirtual},
                 fmt::format("global_batch_size {} is not micro_batch_size {} × "
                             "gradient_accumulation_steps {} × virtual_workers {} = {}",
                             draft.shown(kGlobal), draft.shown(kMicro), draft.shown(kAccumulation),
                             draft.shown(kVirtual),
                             training.micro_batch_size * training.gradient_accumulation_steps *
                                 training.virtual_workers),
                 "give two of global, micro and accumulation; the third follows");
}

void derive_from_global(Draft& draft) {
  auto& training = draft.spec.training;
  if (training.global_batch_size < training.virtual_workers) {
    return draft.complain(
        {kGlobal, kVirtual, kMicro, kAccumulation},
        fmt::format("global_batch_size {} leaves slices of virtual_workers {} empty",
                    draft.shown(kGlobal), draft.shown(kVirtual)),
        fmt::format("set training.virtual_workers to at most {}", training.global_batch_size));
  }
  const auto slice = ceil_div(training.global_batch_size, training.virtual_workers);
  auto& micro = training.micro_batch_size;
  auto& accumulation = training.gradient_accumulation_steps;
  if (draft.given(kMicro) && draft.given(kAccumulation)) {
    check_identity(draft, slice);
  } else if (draft.given(kMicro)) {
    accumulation = derive_factor(draft, kMicro, micro, kAccumulation, slice);
  } else {
    if (!draft.given(kAccumulation)) accumulation = 1;
    micro = derive_factor(draft, kAccumulation, accumulation, kMicro, slice);
    if (micro > kMostPassed)
      draft.complain({kGlobal, kAccumulation, kVirtual},
                     fmt::format("a pass of {} samples is more than {}", micro, kMostPassed),
                     "set training.micro_batch_size, or more training.virtual_workers");
  }
}

void check_loss_scale(Draft& draft) {
  const auto& scale = draft.spec.training.loss_scale;
  if (scale.min_scale <= scale.init_scale) return;
  draft.complain({"training.loss_scale.min_scale", "training.loss_scale.init_scale"},
                 fmt::format("training.loss_scale.min_scale {} is above init_scale {}",
                             draft.shown("training.loss_scale.min_scale"),
                             draft.shown("training.loss_scale.init_scale")),
                 "the scale begins at the one and never falls below the other");
}

void check_reduce_precision(Draft& draft) {
  const TrainingSpec& training = draft.spec.training;
  if (training.reduce_precision != Precision::kFP16 || training.precision == Precision::kFP16)
    return;
  draft.complain(
      {"training.reduce_precision", "training.precision"},
      fmt::format("training.reduce_precision {} needs training.precision: fp16, whose "
                  "loss scale keeps gradients within its range; here it is {}",
                  draft.shown("training.reduce_precision"), draft.shown("training.precision")),
      "use bf16, which has the range of f32");
}

}  // namespace

void resolve_training(Draft& draft) {
  resolve_length(draft);
  check_loss_scale(draft);
  check_reduce_precision(draft);
  for (const auto field : {kGlobal, kMicro, kAccumulation, kVirtual}) {
    if (draft.faulty.contains(field)) return;
  }
  if (!draft.given(kGlobal) && draft.given(kMicro)) return derive_global(draft);
  derive_from_global(draft);
}

}  // namespace muster::job
