#include "muster/plan/estimate.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/plan/pipelined.h"
#include "muster/plan/pricing.h"
#include "muster/plan/replicated.h"

namespace muster::plan {
namespace {

Status check_mesh(const Way& way) {
  const std::int32_t replica = way.workers_of_replica();
  if (replica < 1 || way.workers % replica != 0)
    return not_priced(fmt::format("{} workers are no whole number of replicas of {}{}", way.workers,
                                  replica, way.together() == 1 ? " stages" : ""));
  if (way.replicas() > way.slices)
    return not_priced(fmt::format("{} workers need a slice of the batch each, and there are {}",
                                  way.replicas(), way.slices));
  if (way.replicas() % (way.shard_count() * way.expert) != 0)
    return not_priced(fmt::format("{} replicas are no whole number of {} {}", way.replicas(),
                                  way.shard_count() * way.expert,
                                  way.expert == 1 ? "shards" : "shards and holders of experts"));
  if (way.zero_stage > 1 && way.together() > 1)
    return not_priced("what stages 2 and 3 of ZeRO send of cut models was not looked at");
  return ok();
}

bool is_cut_so(const CutProfile& known, const Way& way) {
  if (known.ranks != way.that_meet() || known.experts != (way.expert > 1)) return false;
  if (way.context > 1) return known.attention == way.attention;
  return !known.attention && known.sequence == way.sequence_parallel;
}

const char* what_is_cut(const Way& way) {
  if (way.expert > 1) return "experts";
  return way.context > 1 ? "sequences" : "tensors";
}

// Null: ranks do not meet in their passes.
Result<const CutProfile*> cut_for(const ModelProfile& profile, const Way& way) {
  if (way.that_meet() == 1) return nullptr;
  if ((way.tensor > 1) + (way.context > 1) + (way.expert > 1) > 1)
    return not_priced("cut tensors, shared sequences and dealt experts were not measured together");
  const auto cut = std::ranges::find_if(
      profile.cuts, [&](const CutProfile& known) { return is_cut_so(known, way); });
  if (cut != profile.cuts.end() && cut->pass.samples == way.micro_batch) return &*cut;
  return not_priced(fmt::format("passes of {} samples were not measured with {} in {} parts",
                                way.micro_batch, what_is_cut(way), way.that_meet()));
}

// The first rank's part of the model.
ModelProfile part_of(const ModelProfile& profile, const CutProfile& cut) {
  ModelProfile part = profile;
  part.blocks = cut.blocks;
  const auto elements = [](const ModelProfile& of) {
    return static_cast<double>(std::max<std::int64_t>(1, of.trained_parameters()));
  };
  part.update = scaled(profile.update, elements(part) / elements(profile));
  return part;
}

Result<Estimate> price(const RankModel& model, const Way& way, const Hardware& hardware) {
  if (way.spread == Spread::kPipeline) return price_pipelined(model, way, hardware);
  return price_replicated(model, way, hardware);
}

}  // namespace

Result<Estimate> estimate(const ModelProfile& profile, const Way& way, const Hardware& hardware) {
  const PassProfile* pass = profile.pass_of(way.micro_batch);
  if (!pass)
    return not_priced(fmt::format("passes of {} samples were not measured", way.micro_batch));
  MUSTER_TRY(check_mesh(way));
  const bool gathers = way.spread == Spread::kSharded && way.zero_stage > 1;
  if (gathers && !profile.shards_among(way.shard_count()))
    return not_priced(fmt::format("shards among {} workers were not looked at", way.shard_count()));
  MUSTER_ASSIGN(const CutProfile* const cut, cut_for(profile, way));
  if (!cut) return price({profile, profile, *pass}, way, hardware);
  const ModelProfile part = part_of(profile, *cut);
  return price({profile, part, cut->pass, cut}, way, hardware);
}

}  // namespace muster::plan
