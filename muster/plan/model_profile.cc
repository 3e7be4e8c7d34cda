#include "muster/plan/model_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

namespace muster::plan {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const BlockProfile& block) {
  Json json = {{"name", block.name},
               {"trained", block.trained},
               {"frozen", block.frozen},
               {"statistics", block.statistics},
               {"optimizer_bytes", block.optimizer_bytes},
               {"tied", Json::array()},
               {"experts", block.experts}};
  for (const TiedParameter& tied : block.tied)
    json["tied"].push_back({{"owner", tied.owner},
                            {"name", tied.name},
                            {"elements", tied.elements},
                            {"trained", tied.trained}});
  return json;
}

Json json_of(const std::vector<RankMessage>& messages) {
  Json json = Json::array();
  for (const RankMessage& message : messages)
    json.push_back({static_cast<int>(message.kind), message.bytes});
  return json;
}

Json json_of(const PassProfile& pass) {
  Json json = {{"samples", pass.samples},
               {"blocks", Json::array()},
               {"loss_messages", json_of(pass.loss_messages)}};
  for (const BlockPass& block : pass.blocks)
    json["blocks"].push_back({{"forward_ns", block.forward.count()},
                              {"backward_ns", block.backward.count()},
                              {"activation_bytes", block.activation_bytes},
                              {"output_bytes", block.output_bytes},
                              {"backward_bytes", block.backward_bytes},
                              {"forward_messages", json_of(block.forward_messages)},
                              {"backward_messages", json_of(block.backward_messages)}});
  return json;
}

Json json_of(const CutProfile& cut) {
  Json json = {{"ranks", cut.ranks},
               {"sequence", cut.sequence},
               {"attention", cut.attention ? Json(static_cast<int>(*cut.attention)) : Json()},
               {"holders", cut.holders},
               {"blocks", Json::array()},
               {"whole", cut.whole},
               {"pass", json_of(cut.pass)}};
  for (const BlockProfile& block : cut.blocks) json["blocks"].push_back(json_of(block));
  return json;
}

Json json_of(const ShardedBuckets& buckets) {
  return {{"sizes", buckets.sizes}, {"own", buckets.own}};
}

Json json_of(const ShardProfile& shards) {
  return {{"workers", shards.workers},
          {"gradients", json_of(shards.gradients)},
          {"by_block", json_of(shards.by_block)},
          {"weights", json_of(shards.weights)},
          {"weight_bytes", shards.weight_bytes},
          {"needed", shards.needed}};
}

BlockProfile block_of(const Json& json) {
  BlockProfile block{.name = json.at("name"),
                     .trained = json.at("trained"),
                     .frozen = json.at("frozen"),
                     .statistics = json.at("statistics"),
                     .optimizer_bytes = json.at("optimizer_bytes"),
                     .experts = json.at("experts")};
  for (const Json& tied : json.at("tied"))
    block.tied.push_back(
        {tied.at("owner"), tied.at("name"), tied.at("elements"), tied.at("trained")});
  return block;
}

std::vector<RankMessage> messages_of(const Json& json) {
  std::vector<RankMessage> messages;
  for (const Json& message : json)
    messages.push_back({static_cast<RankMessage::Kind>(message.at(0).get<int>()), message.at(1)});
  return messages;
}

PassProfile pass_of(const Json& json) {
  PassProfile pass{.samples = json.at("samples"),
                   .blocks = {},
                   .loss_messages = messages_of(json.at("loss_messages"))};
  for (const Json& block : json.at("blocks"))
    pass.blocks.push_back({Duration(block.at("forward_ns").get<std::int64_t>()),
                           Duration(block.at("backward_ns").get<std::int64_t>()),
                           block.at("activation_bytes"), block.at("output_bytes"),
                           block.at("backward_bytes"), messages_of(block.at("forward_messages")),
                           messages_of(block.at("backward_messages"))});
  return pass;
}

CutProfile cut_of(const Json& json) {
  CutProfile cut{.ranks = json.at("ranks"),
                 .sequence = json.at("sequence"),
                 .holders = json.at("holders"),
                 .blocks = {},
                 .whole = json.at("whole"),
                 .pass = pass_of(json.at("pass"))};
  if (const Json& attention = json.at("attention"); !attention.is_null())
    cut.attention = static_cast<Attention>(attention.get<int>());
  for (const Json& block : json.at("blocks")) cut.blocks.push_back(block_of(block));
  return cut;
}

ShardedBuckets buckets_of(const Json& json) { return {json.at("sizes"), json.at("own")}; }

ShardProfile shards_of(const Json& json) {
  return {.workers = json.at("workers"),
          .gradients = buckets_of(json.at("gradients")),
          .by_block = buckets_of(json.at("by_block")),
          .weights = buckets_of(json.at("weights")),
          .weight_bytes = json.at("weight_bytes"),
          .needed = json.at("needed")};
}

Error not_one(std::string_view why) {
  return fail(ErrorCode::kInvalid,
              fmt::format("[plan/profile] not what a worker says of its model: {}", why));
}

Status check_shards(const ShardProfile& shards) {
  for (const ShardedBuckets* buckets : {&shards.gradients, &shards.by_block, &shards.weights})
    if (buckets->sizes.size() != buckets->own.size()) return not_one("a bucket has no own part");
  if (shards.weight_bytes.size() != shards.weights.sizes.size())
    return not_one("a bucket of weights has no bytes");
  for (const std::vector<std::size_t>& needed : shards.needed)
    for (const std::size_t bucket : needed)
      if (bucket >= shards.weights.sizes.size()) return not_one("a block needs no known bucket");
  return ok();
}

Status check_parts(const ModelProfile& profile) {
  const std::size_t blocks = profile.blocks.size();
  for (const CutProfile& cut : profile.cuts)
    if (cut.blocks.size() != blocks || cut.pass.blocks.size() != blocks || cut.ranks < 1 ||
        cut.holders < 1 || (cut.ranks == 1 && cut.holders == 1) || cut.pass.samples < 1)
      return not_one("a cut model has other blocks");
  for (const ShardProfile& shards : profile.shards) MUSTER_TRY(check_shards(shards));
  return ok();
}

Status check(const ModelProfile& profile) {
  if (profile.blocks.empty() || profile.passes.empty()) return not_one("no blocks or no passes");
  const auto blocks = static_cast<std::int32_t>(profile.blocks.size());
  for (const PassProfile& pass : profile.passes)
    if (std::ssize(pass.blocks) != blocks || pass.samples < 1)
      return not_one("a pass has other blocks than the model");
  for (std::int32_t b = 0; b < blocks; ++b)
    for (const TiedParameter& tied : profile.blocks[static_cast<std::size_t>(b)].tied)
      if (tied.owner < 0 || tied.owner >= b) return not_one("a parameter is tied to a later block");
  return check_parts(profile);
}

}  // namespace

std::int64_t BlockProfile::trained_elements() const noexcept {
  return std::accumulate(trained.begin(), trained.end(), std::int64_t{0});
}

std::int64_t BlockProfile::held_elements() const noexcept {
  return std::accumulate(experts.begin(), experts.end(), trained_elements());
}

std::int64_t ShardedBuckets::longest() const noexcept {
  return sizes.empty() ? 0 : *std::ranges::max_element(sizes);
}
std::int64_t ShardedBuckets::elements() const noexcept {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
}
std::int64_t ShardedBuckets::own_elements() const noexcept {
  return std::accumulate(own.begin(), own.end(), std::int64_t{0});
}

std::int64_t ModelProfile::trained_parameters() const noexcept {
  std::int64_t elements = 0;
  for (const BlockProfile& block : blocks) elements += block.held_elements();
  return elements;
}
std::int64_t ModelProfile::parameters() const noexcept {
  std::int64_t elements = trained_parameters();
  for (const BlockProfile& block : blocks) elements += block.frozen;
  return elements;
}

std::uint64_t ModelProfile::state_bytes() const noexcept {
  std::uint64_t bytes = static_cast<std::uint64_t>(parameters()) * kFloat;
  for (const BlockProfile& block : blocks)
    bytes += static_cast<std::uint64_t>(block.statistics) * kFloat + block.optimizer_bytes;
  return bytes;
}

const PassProfile* ModelProfile::pass_of(std::int64_t samples) const noexcept {
  const auto found = std::ranges::find(passes, samples, &PassProfile::samples);
  return found == passes.end() ? nullptr : &*found;
}
const ShardProfile* ModelProfile::shards_among(std::int32_t workers) const noexcept {
  const auto found = std::ranges::find(shards, workers, &ShardProfile::workers);
  return found == shards.end() ? nullptr : &*found;
}

Json to_json(const ModelProfile& profile) {
  Json json = {{"blocks", Json::array()},
               {"passes", Json::array()},
               {"notes", profile.notes},
               {"update_ns", profile.update.count()},
               {"checksum_ns", profile.checksum.count()},
               {"process_bytes", profile.process_bytes},
               {"not_measured", profile.not_measured},
               {"shards", Json::array()},
               {"cuts", Json::array()}};
  for (const BlockProfile& block : profile.blocks) json["blocks"].push_back(json_of(block));
  for (const PassProfile& pass : profile.passes) json["passes"].push_back(json_of(pass));
  for (const ShardProfile& shards : profile.shards) json["shards"].push_back(json_of(shards));
  for (const CutProfile& cut : profile.cuts) json["cuts"].push_back(json_of(cut));
  return json;
}

Result<ModelProfile> profile_from_json(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    ModelProfile profile;
    for (const Json& block : json.at("blocks")) profile.blocks.push_back(block_of(block));
    for (const Json& pass : json.at("passes")) profile.passes.push_back(plan::pass_of(pass));
    profile.notes = json.at("notes");
    profile.update = Duration(json.at("update_ns").get<std::int64_t>());
    profile.checksum = Duration(json.value("checksum_ns", std::int64_t{0}));  // not in old files
    profile.process_bytes = json.at("process_bytes");
    profile.not_measured = json.at("not_measured");
    for (const Json& shards : json.at("shards")) profile.shards.push_back(shards_of(shards));
    for (const Json& cut : json.at("cuts")) profile.cuts.push_back(cut_of(cut));
    MUSTER_TRY(check(profile));
    return profile;
  } catch (const nlohmann::json::exception& fault) {
    return not_one(fault.what());
  }
}

}  // namespace muster::plan
