#include "muster/cluster/launchers/agents/same_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace muster::cluster {
namespace {

using Values = std::vector<std::pair<std::string, std::string>>;

std::string told_version(const Attend& agent) {
  return agent.version.empty() ? "a muster that does not say which" : agent.version;
}

const std::string* value_in(const Values& values, const std::string& field) {
  const auto found = std::ranges::find(values, field, &Values::value_type::first);
  return found == values.end() ? nullptr : &found->second;
}

// "training.epochs: 3", or that there is none.
std::string described(const Values& values, const std::string& field) {
  const std::string* value = value_in(values, field);
  return value == nullptr ? fmt::format("no {}", field) : fmt::format("{}: {}", field, *value);
}

// The first field, in the order of the job's table; empty: none.
std::string first_difference(const Values& one, const Values& other) {
  if (one == other) return "";
  for (const auto& [a, b] : {std::pair(&one, &other), std::pair(&other, &one)})
    for (const auto& [field, value] : *a) {
      const std::string* there = value_in(*b, field);
      if (there == nullptr || *there != value) return field;
    }
  return "";
}

}  // namespace

std::string who(const Attend& agent) {
  return fmt::format("{} on {} (pid {})", agent.number, agent.host, agent.pid);
}

std::string what_differs(const Attend& first, const Attend& agent) {
  if (first.version != agent.version)
    return fmt::format("all ranks need the same muster: {} is of rank {}, {} of rank {}",
                       told_version(agent), who(agent), told_version(first), who(first));
  const GivenJob& here = first.job;
  const GivenJob& there = agent.job;
  if (here.values.empty()) return "";
  if (!there.mistake.empty())
    return fmt::format(
        "all ranks need the same job, and rank {} cannot read its own, {} (that of "
        "rank {} is {}): {}",
        who(agent), there.file, who(first), here.file, there.mistake);
  if (there.values.empty()) return "";
  const std::string field = first_difference(here.values, there.values);
  if (field.empty()) return "";
  return fmt::format(
      "all ranks need the same job: rank {} has `{}` by {}, rank {} has `{}` by {}; "
      "give both the same file, --set and MUSTER_ variables",
      who(agent), described(there.values, field), there.file, who(first),
      described(here.values, field), here.file);
}

}  // namespace muster::cluster
