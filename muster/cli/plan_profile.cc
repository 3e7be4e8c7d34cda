#include "muster/cli/plan_profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "muster/cli/job_ways.h"
#include "muster/plan/model_profile.h"

namespace muster::cli {
namespace {

constexpr std::string_view kAnew = "name another file, or delete it, and it is measured anew";

// Fields, and beginnings of fields, that what is measured depends on.
constexpr std::array<std::string_view, 10> kMeasured = {
    "device",        "model.",          "lora.",
    "data.",         "optimizer.type",  "optimizer.momentum",
    "training.loss", "training.freeze", "training.precision",
    "training.isa"};
// Of these, where something lies and how it is read.
constexpr std::array<std::string_view, 6> kElsewhere = {
    "model.weights", "data.path",           "data.validation_path",
    "data.cache",    "data.loader_threads", "data.prefetch_batches"};

bool is_measured(const std::string& field) {
  const auto names = [&](std::string_view name) {
    return name.ends_with('.') ? field.starts_with(name) : field == name;
  };
  return std::ranges::any_of(kMeasured, names) &&
         std::ranges::find(kElsewhere, field) == kElsewhere.end();
}

std::map<std::string, std::string> measured_fields(const job::Job& job) {
  std::map<std::string, std::string> fields;
  for (const job::Field& field : job.fields->all())
    if (is_measured(field.name)) fields[field.name] = field.print(job.spec).text;
  return fields;
}

Error refused(const Path& path, const std::string& why) {
  return fail(ErrorCode::kInvalid, fmt::format("--profile {}: {}; {}", path.string(), why, kAnew));
}

// Empty: none.
std::string difference(const std::map<std::string, std::string>& measured, const job::Job& job) {
  const auto wanted = measured_fields(job);
  for (const auto& [field, value] : wanted) {
    const auto found = measured.find(field);
    const std::string before = found == measured.end() ? "nothing" : found->second;
    if (before != value)
      return fmt::format("it was measured with {}: {}, the job has {}", field, before, value);
  }
  return {};
}

Status check_passes(const Path& path, const plan::ModelProfile& profile, const job::Job& job) {
  for (const std::int64_t samples : micro_batches_of(job.spec)) {
    if (profile.pass_of(samples)) continue;
    std::vector<std::int64_t> known;
    known.reserve(profile.passes.size());
    for (const plan::PassProfile& pass : profile.passes) known.push_back(pass.samples);
    return refused(path, fmt::format("it knows passes of {} samples, the job may have passes of {}",
                                     fmt::join(known, ", "), samples));
  }
  return ok();
}

}  // namespace

Status write_profile(Files& files, const Path& path, const job::Job& job,
                     const plan::ModelProfile& profile) {
  const nlohmann::json json = {{"fields", measured_fields(job)},
                               {"profile", plan::to_json(profile)}};
  return write_atomically(files, path, json.dump() + "\n");
}

Result<plan::ModelProfile> read_profile(Files& files, const Path& path, const job::Job& job) {
  MUSTER_ASSIGN(const std::string text, files.read(path));
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("fields") || !json.contains("profile"))
    return refused(path, "it is no file that `muster plan --profile` has written");
  std::map<std::string, std::string> fields;
  for (const auto& [name, value] : json["fields"].items())
    if (value.is_string()) fields[name] = value;
  if (const std::string other = difference(fields, job); !other.empty())
    return refused(path, other);
  auto profile = plan::profile_from_json(json["profile"].dump());
  if (!profile) return refused(path, profile.error().message);
  MUSTER_TRY(check_passes(path, *profile, job));
  return profile;
}

}  // namespace muster::cli
