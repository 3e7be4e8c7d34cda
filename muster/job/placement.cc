#include "muster/job/placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include "muster/base/glob.h"
#include "muster/base/share.h"
#include "muster/job/diagnostic.h"
#include "muster/job/enum_names.h"

namespace muster::job {
namespace {

using BlockNames = std::vector<std::string>;

BlockNames decoder_names(std::int64_t layers) {
  BlockNames names = {"embedding"};
  names.reserve(static_cast<std::size_t>(layers) + 2);
  for (std::int64_t i = 0; i < layers; ++i) names.push_back(fmt::format("layer{}", i));
  names.emplace_back("head");
  return names;
}

BlockNames mlp_names(const MlpSpec& mlp) {
  BlockNames names;
  names.reserve(mlp.hidden_sizes.size() + 1);
  for (std::size_t i = 0; i < mlp.hidden_sizes.size(); ++i)
    names.push_back(fmt::format("layer{}", i));
  names.emplace_back("head");
  return names;
}

BlockNames resnet_names(const ResnetSpec& resnet) {
  BlockNames names = {"stem"};
  for (std::size_t stage = 0; stage < resnet.channels.size(); ++stage)
    for (std::int64_t i = 0; i < resnet.blocks_per_stage; ++i)
      names.push_back(fmt::format("stage{}_block{}", stage, i));
  names.emplace_back("head");
  return names;
}

BlocksPlaced misplaced(std::string what, std::string help) {
  return {.sizes = {}, .wrong = std::move(what), .help = std::move(help)};
}

// The stage that each block is on, or what is wrong.
struct ByBlock {
  std::vector<std::int64_t> stages;
  BlocksPlaced fault;
};

// Blocks that one stage has in a run.
struct Run {
  std::int64_t stage = 0;
  std::int64_t blocks = 0;
};

std::vector<Run> runs_in(std::span<const std::int64_t> stages) {
  std::vector<Run> runs;
  for (const std::int64_t stage : stages) {
    if (runs.empty() || runs.back().stage != stage) runs.push_back({stage, 0});
    ++runs.back().blocks;
  }
  return runs;
}

std::vector<std::int64_t> stages_of(const std::vector<Run>& runs) {
  std::vector<std::int64_t> stages;
  stages.reserve(runs.size());
  for (const Run& run : runs) stages.push_back(run.stage);
  return stages;
}

// As layout's round_robin_placement() and v_placement() have them.
std::vector<std::int64_t> stages_by_chunk(const PassingSchedule& passing, std::int64_t stages) {
  std::vector<std::int64_t> by_chunk(static_cast<std::size_t>(stages));
  std::iota(by_chunk.begin(), by_chunk.end(), 0);
  if (passing.schedule == PipelineSchedule::kZbV) {
    const auto down = by_chunk;
    by_chunk.insert(by_chunk.end(), down.rbegin(), down.rend());
    return by_chunk;
  }
  const auto once = by_chunk;
  for (std::int64_t chunk = 1; chunk < passing.chunks_per_stage; ++chunk)
    by_chunk.insert(by_chunk.end(), once.begin(), once.end());
  return by_chunk;
}

bool passes_so(const PassingSchedule& passing, std::int64_t stages, const std::vector<Run>& runs) {
  return stages_of(runs_in(stages_by_chunk(passing, stages))) == stages_of(runs);
}

std::optional<PassingSchedule> schedule_for(const std::vector<Run>& runs, std::int64_t stages) {
  const auto passes = std::ssize(runs) / stages;
  for (const PassingSchedule passing :
       {PassingSchedule{PipelineSchedule::k1F1B, 1}, PassingSchedule{PipelineSchedule::kZbV, 2},
        PassingSchedule{PipelineSchedule::kInterleaved, passes}})
    if (passing.chunks_per_stage > 0 && passes_so(passing, stages, runs)) return passing;
  return std::nullopt;
}

std::int64_t most_stage(const std::vector<PlacedBlocks>& placement) {
  return std::ranges::max_element(placement, {}, &PlacedBlocks::stage)->stage;
}

std::string all_text(const BlockNames& names) {
  constexpr std::size_t kShown = 12;
  if (names.size() <= kShown) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{}, … {}", fmt::join(std::span(names).first(kShown - 1), ", "), names.back());
}

std::string did_you_mean(std::string_view pattern, const BlockNames& names) {
  std::string near = near_word(pattern, {names.begin(), names.end()});
  const auto begins = [&](const std::string& name) { return name.starts_with(pattern); };
  if (near.empty() && std::ranges::count_if(names, begins) == 1)
    near = *std::ranges::find_if(names, begins);
  return near.empty() ? "a pattern that matches nothing is a slip of the pen"
                      : fmt::format("did you mean `{}`?", near);
}

// Of a pattern that has put no block anywhere.
BlocksPlaced says_nothing(const PlacedBlocks& placed, const std::vector<PlacedBlocks>& placement,
                          const BlockNames& names) {
  const auto taken = std::ranges::find_if(
      names, [&](const std::string& name) { return matches(placed.match, name); });
  if (taken == names.end())
    return misplaced(
        fmt::format("no block has a name like `{}`; there are {}", placed.match, all_text(names)),
        did_you_mean(placed.match, names));
  const auto before = std::ranges::find_if(
      placement, [&](const PlacedBlocks& other) { return matches(other.match, *taken); });
  return misplaced(fmt::format("`{}` puts no block anywhere: `{}` stands before it", placed.match,
                               before->match),
                   "the first pattern that matches a name has it: write it first");
}

ByBlock put_blocks(const std::vector<PlacedBlocks>& placement, const BlockNames& names) {
  ByBlock found;
  std::vector<bool> used(placement.size());
  BlockNames left;
  for (const std::string& name : names) {
    const auto placed = std::ranges::find_if(
        placement, [&](const PlacedBlocks& each) { return matches(each.match, name); });
    if (placed == placement.end()) {
      left.push_back(name);
      continue;
    }
    used[static_cast<std::size_t>(placed - placement.begin())] = true;
    found.stages.push_back(placed->stage);
  }
  for (std::size_t i = 0; i < placement.size(); ++i) {
    if (used[i]) continue;
    found.fault = says_nothing(placement[i], placement, names);
    return found;
  }
  if (!left.empty())
    found.fault = misplaced(
        fmt::format("{} on no stage: {}", left.size() == 1 ? "a block is" : "some blocks are",
                    names_text(left)),
        "name what is left, or all of it as \"*\"");
  return found;
}

BlocksPlaced check_stages(const std::vector<PlacedBlocks>& placement, std::int64_t stages) {
  for (const PlacedBlocks& placed : placement)
    if (placed.stage >= stages)
      return misplaced(fmt::format("`{}` is on stage {}, and there are {} stages", placed.match,
                                   placed.stage, stages),
                       fmt::format("expected 0 to {}", stages - 1));
  for (std::int64_t stage = 0; stage < stages; ++stage)
    if (std::ranges::find(placement, stage, &PlacedBlocks::stage) == placement.end())
      return misplaced(fmt::format("no block is on stage {} of {}", stage, stages),
                       "each stage has one at least: put one there, or use fewer stages");
  return {};
}

// The blocks in the order of their stages, none of which is passed twice: "embedding … layer2 on
// stage 0, layer3, head on stage 1". Empty where a stage would have none.
std::string nearest_in_order(std::vector<std::int64_t> by_block, std::int64_t stages,
                             const BlockNames& names) {
  std::partial_sum(by_block.begin(), by_block.end(), by_block.begin(),
                   [](std::int64_t a, std::int64_t b) { return std::max(a, b); });
  const std::vector<Run> runs = runs_in(by_block);
  if (!passes_so({}, stages, runs)) return {};
  std::string text;
  std::size_t begin = 0;
  for (const Run& run : runs) {
    const auto size = static_cast<std::size_t>(run.blocks);
    text += fmt::format("{}{} on stage {}", text.empty() ? "" : "; ",
                        names_text(std::span(names).subspan(begin, size)), run.stage);
    begin += size;
  }
  return text;
}

std::string way_through(std::span<const std::int64_t> stages) {
  constexpr std::size_t kShown = 12;
  const auto shown = stages.first(std::min(kShown, stages.size()));
  return fmt::format("{}{}", fmt::join(shown, " → "), shown.size() < stages.size() ? " → …" : "");
}

std::string help_with_order(const std::vector<std::int64_t>& by_block, const std::vector<Run>& runs,
                            std::int64_t stages, const BlockNames& names) {
  if (const auto other = schedule_for(runs, stages)) {
    const std::string word(to_string(other->schedule));
    return other->schedule == PipelineSchedule::kInterleaved
               ? fmt::format("use strategy.schedule: {} with chunks_per_stage: {}", word,
                             other->chunks_per_stage)
               : fmt::format("use strategy.schedule: {}", word);
  }
  const std::string nearest = nearest_in_order(by_block, stages, names);
  if (!nearest.empty()) return fmt::format("the nearest that can be: {}", nearest);
  return "number the stages in the model's order; workers.hosts says which host has which";
}

// Chunks that follow each other on one stage, as on the last one of a V, share its run evenly.
BlocksPlaced deal_out(const std::vector<std::int64_t>& by_chunk, const std::vector<Run>& blocks) {
  BlocksPlaced placed;
  const std::vector<Run> chunks = runs_in(by_chunk);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const std::int64_t share = chunks[i].blocks;
    if (blocks[i].blocks < share)
      return misplaced(
          fmt::format("{} of the chunks on stage {} follow each other, and {} block is "
                      "there",
                      share, chunks[i].stage, blocks[i].blocks),
          "each has one at least: put more there, or use another strategy.schedule");
    for (std::int64_t part = 0; part < share; ++part)
      placed.sizes.push_back(even_share(blocks[i].blocks, share, part).size());
  }
  return placed;
}

}  // namespace

std::vector<std::string> block_names(const ModelSpec& model) {
  switch (model.type) {
    case ModelType::kMlp:
      return mlp_names(model.mlp);
    case ModelType::kResnet:
      return resnet_names(model.resnet);
    case ModelType::kGpt:
    case ModelType::kLlama:
    case ModelType::kMoe:
      return decoder_names(model.transformer.n_layer);
    case ModelType::kOwn:
      break;
  }
  return {};
}

std::optional<std::int64_t> block_count(const ModelSpec& model) {
  switch (model.type) {
    case ModelType::kMlp:
      return std::ssize(model.mlp.hidden_sizes) + 1;
    case ModelType::kResnet:
      return std::ssize(model.resnet.channels) * model.resnet.blocks_per_stage + 2;
    case ModelType::kGpt:
    case ModelType::kLlama:
    case ModelType::kMoe:
      return model.transformer.n_layer + 2;
    case ModelType::kOwn:
      break;
  }
  return std::nullopt;
}

std::string names_text(std::span<const std::string> names) {
  if (names.size() <= 2) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} … {}", names.front(), names.back());
}

BlocksPlaced place_blocks(const StrategySpec& strategy, const std::vector<std::string>& names) {
  if (BlocksPlaced fault = check_stages(strategy.placement, strategy.stages); !fault.wrong.empty())
    return fault;
  ByBlock found = put_blocks(strategy.placement, names);
  if (!found.fault.wrong.empty()) return std::move(found.fault);
  const PassingSchedule passing{strategy.schedule, strategy.chunks_per_stage};
  const std::vector<Run> runs = runs_in(found.stages);
  const std::vector<std::int64_t> by_chunk = stages_by_chunk(passing, strategy.stages);
  if (passes_so(passing, strategy.stages, runs)) return deal_out(by_chunk, runs);
  const std::vector<std::int64_t> passed = stages_of(runs_in(by_chunk));
  return misplaced(
      fmt::format("the blocks pass stages {}; schedule {} with {} chunk{} a stage passes {}",
                  way_through(stages_of(runs)), to_string(strategy.schedule),
                  strategy.chunks_per_stage, strategy.chunks_per_stage == 1 ? "" : "s",
                  way_through(passed)),
      help_with_order(found.stages, runs, strategy.stages, names));
}

Result<std::vector<std::int32_t>> blocks_by_hand(const StrategySpec& strategy,
                                                 const std::vector<std::string>& names) {
  std::vector<std::int64_t> sizes = strategy.blocks;
  const std::int64_t chunks = strategy.stages * strategy.chunks_per_stage;
  if (sizes.empty() && !strategy.placement.empty() && chunks <= std::ssize(names)) {
    BlocksPlaced placed = place_blocks(strategy, names);
    if (!placed.wrong.empty())
      return fail(ErrorCode::kInvalid,
                  fmt::format("[job] strategy.placement: {}; {}", placed.wrong, placed.help));
    sizes = std::move(placed.sizes);
  }
  return std::vector<std::int32_t>(sizes.begin(), sizes.end());
}

std::optional<PassingSchedule> schedule_for_placement(const StrategySpec& strategy,
                                                      const std::vector<std::string>& names) {
  if (strategy.placement.empty()) return std::nullopt;
  const ByBlock found = put_blocks(strategy.placement, names);
  if (!found.fault.wrong.empty()) return std::nullopt;
  return schedule_for(runs_in(found.stages), most_stage(strategy.placement) + 1);
}

}  // namespace muster::job
