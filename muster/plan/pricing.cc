#include "muster/plan/pricing.h"

#include <algorithm>
#include <cmath>

#include "muster/base/scratch_memory.h"

namespace muster::plan {

Error not_priced(std::string why) {
  return fail(ErrorCode::kInvalid, "[plan/estimate] " + std::move(why));
}

Duration scaled(Duration time, double by) {
  return Duration(std::llround(static_cast<double>(time.count()) * by));
}

double stretch(double threads, const Hardware& hardware) {
  return std::max(1.0, threads / hardware.cores);
}

Duration update_of(const ModelProfile& profile, std::int64_t trained, std::int32_t lanes) {
  const std::int64_t all = profile.trained_parameters();
  if (all == 0) return {};
  return scaled(profile.update, static_cast<double>(trained) / static_cast<double>(all) /
                                    static_cast<double>(lanes));
}

void offload(const Way& way, const Part& part, std::int32_t lanes, MemoryUse& memory) {
  if (!way.offloads) return;
  const std::vector<std::int64_t> slots = part.slot_counts();
  const std::int64_t largest =
      slots.size() > 1 ? *std::max_element(slots.begin() + 1, slots.end()) : 0;
  const double share =
      static_cast<double>(largest) / static_cast<double>(std::max<std::int64_t>(1, part.trained()));
  const auto one = static_cast<std::uint64_t>(share * static_cast<double>(part.optimizer()));
  memory.disk = memory.optimizer;
  memory.optimizer = std::min(memory.disk, 2 * std::max<std::uint64_t>(kScratchWindowBytes, one) *
                                               static_cast<std::uint64_t>(lanes));
}

Duration exposed(const ExchangeCost& exchange, Duration last_backward) {
  return std::max(exchange.last, exchange.reduce - last_backward);
}

std::vector<ExchangeCost> exchanges_of(const Part& part, const Way& way, const Hardware& hardware) {
  std::vector<ExchangeCost> exchanges = {
      exchange_cost(way, part.slot_counts(), sum_tree_of(way), hardware)};
  const std::vector<std::int64_t> experts = part.expert_slot_counts();
  if (experts.size() > 1)
    exchanges.push_back(exchange_cost(way, experts, expert_tree_of(way), hardware));
  return exchanges;
}

layout::BlockRange all_blocks(const ModelProfile& profile) {
  return {0, static_cast<std::int32_t>(profile.blocks.size())};
}

BriefMemory counting_whole(const RankModel& model, const Way& way) {
  Part whole(model.whole, *model.whole.pass_of(way.micro_batch), way);
  whole.add(all_blocks(model.whole));
  return whole.counting();
}

// Counting comes between two steps: of what goes back to the kernel there is the one or the other.
PassMemory pass_memory(std::uint64_t kept, BriefMemory in_hand, BriefMemory counting) {
  const std::uint64_t given_back = std::max(in_hand.goes_back, counting.goes_back);
  return {.activations = kept + in_hand.stays + counting.stays + given_back,
          .given_back = given_back};
}

}  // namespace muster::plan
