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
               {"tied", Json::array()}};
  for (const TiedParameter& tied : block.tied)
    json["tied"].push_back({{"owner", tied.owner},
                            {"name", tied.name},
                            {"elements", tied.elements},
                            {"trained", tied.trained}});
  return json;
}

Json json_of(const PassProfile& pass) {
  Json json = {{"samples", pass.samples}, {"blocks", Json::array()}};
  for (const BlockPass& block : pass.blocks)
    json["blocks"].push_back({{"forward_ns", block.forward.count()},
                              {"backward_ns", block.backward.count()},
                              {"activation_bytes", block.activation_bytes},
                              {"output_bytes", block.output_bytes}});
  return json;
}

BlockProfile block_of(const Json& json) {
  BlockProfile block{.name = json.at("name"),
                     .trained = json.at("trained"),
                     .frozen = json.at("frozen"),
                     .statistics = json.at("statistics"),
                     .optimizer_bytes = json.at("optimizer_bytes")};
  for (const Json& tied : json.at("tied"))
    block.tied.push_back(
        {tied.at("owner"), tied.at("name"), tied.at("elements"), tied.at("trained")});
  return block;
}

PassProfile pass_of(const Json& json) {
  PassProfile pass{.samples = json.at("samples"), .blocks = {}};
  for (const Json& block : json.at("blocks"))
    pass.blocks.push_back({Duration(block.at("forward_ns").get<std::int64_t>()),
                           Duration(block.at("backward_ns").get<std::int64_t>()),
                           block.at("activation_bytes"), block.at("output_bytes")});
  return pass;
}

Error not_one(std::string_view why) {
  return fail(ErrorCode::kInvalid,
              fmt::format("[plan/profile] not what a worker says of its model: {}", why));
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
  return ok();
}

}  // namespace

std::int64_t BlockProfile::trained_elements() const noexcept {
  return std::accumulate(trained.begin(), trained.end(), std::int64_t{0});
}

const PassProfile* ModelProfile::pass_of(std::int64_t samples) const noexcept {
  const auto found = std::ranges::find(passes, samples, &PassProfile::samples);
  return found == passes.end() ? nullptr : &*found;
}

Json to_json(const ModelProfile& profile) {
  Json json = {{"blocks", Json::array()},
               {"passes", Json::array()},
               {"notes", profile.notes},
               {"update_ns", profile.update.count()},
               {"process_bytes", profile.process_bytes}};
  for (const BlockProfile& block : profile.blocks) json["blocks"].push_back(json_of(block));
  for (const PassProfile& pass : profile.passes) json["passes"].push_back(json_of(pass));
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
    profile.process_bytes = json.at("process_bytes");
    MUSTER_TRY(check(profile));
    return profile;
  } catch (const nlohmann::json::exception& fault) {
    return not_one(fault.what());
  }
}

}  // namespace muster::plan
