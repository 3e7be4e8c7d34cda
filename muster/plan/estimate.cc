#include "muster/plan/estimate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

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
  if (known.ranks != way.together() || known.holders != way.expert) return false;
  if (way.context > 1) return known.attention == way.attention;
  return !known.attention && known.sequence == way.sequence_parallel;
}

// "tensors in 2 parts and experts in 4 parts"
std::string cuts_of(const Way& way) {
  std::vector<std::string> cuts;
  const auto add = [&](std::string_view what, std::int32_t parts) {
    if (parts > 1) cuts.push_back(fmt::format("{} in {} parts", what, parts));
  };
  add("tensors", way.tensor);
  add("sequences", way.context);
  add("experts", way.expert);
  return fmt::format("{}", fmt::join(cuts, " and "));
}

// Null: ranks do not meet in their passes.
Result<const CutProfile*> cut_for(const ModelProfile& profile, const Way& way) {
  if (way.that_meet() == 1) return nullptr;
  if (way.context > 1 && way.tensor * way.expert > 1)
    return not_priced(
        "shared sequences were not measured together with cut tensors or dealt experts");
  const auto cut = std::ranges::find_if(
      profile.cuts, [&](const CutProfile& known) { return is_cut_so(known, way); });
  if (cut != profile.cuts.end() && cut->pass.samples == way.micro_batch) return &*cut;
  return not_priced(
      fmt::format("passes of {} samples were not measured with {}", way.micro_batch, cuts_of(way)));
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
