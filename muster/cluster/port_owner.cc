#include "muster/cluster/port_owner.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace muster::cluster {
namespace {

constexpr const char* kOwnerKey = "job";
constexpr const char* kContenderKey = "contender";
constexpr const char* kNobody = "-";
constexpr const char* kCure = "give each job a MASTER_PORT of its own";

struct JobAtPort {
  std::string launcher;
  std::int32_t ranks = 1;
  std::string id;        // StartedBy::attempt
  MeetingProcess first;  // its rank 0
};

Bytes to_value(const StartedBy& by, const MeetingProcess& self) {
  return to_bytes(nlohmann::json{
      {"launcher", by.launcher},
      {"ranks", by.ranks},
      {"id", by.attempt},
      {"host", self.host},
      {"pid", self.pid},
      {"program",
       self.program}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

Result<JobAtPort> read_value(const Bytes& value) {
  try {
    const auto json = nlohmann::json::parse(to_string(value));
    return JobAtPort{.launcher = json.at("launcher").get<std::string>(),
                     .ranks = json.at("ranks").get<std::int32_t>(),
                     .id = json.at("id").get<std::string>(),
                     .first = {.host = json.at("host").get<std::string>(),
                               .pid = json.at("pid").get<std::int32_t>(),
                               .program = json.at("program").get<std::string>()}};
  } catch (const std::exception& why) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("[cluster/meeting] the store there tells of no job of muster's: {}",
                            why.what()));
  }
}

std::string described(const JobAtPort& job) {
  return fmt::format("{} ranks started by {}{}, rank 0 is pid {} on {}", job.ranks, job.launcher,
                     job.id.empty() ? "" : fmt::format(" with the id `{}`", job.id), job.first.pid,
                     job.first.host);
}

std::string named_port(const net::Address& meeting) {
  return fmt::format("port {} of {}", meeting.port, meeting.host);
}

Error is_of_another(const StartedBy& by, const JobAtPort& owner, const std::string& difference) {
  return fail(ErrorCode::kUnavailable,
              fmt::format("[cluster/meeting] {} already serves another job: {}; {}; {}",
                          named_port(by.meeting), described(owner), difference, kCure));
}

// Empty: none that shows.
std::string difference_to(const JobAtPort& owner, const StartedBy& by) {
  if (owner.ranks != by.ranks) return fmt::format("this one has {} ranks", by.ranks);
  if (owner.id == by.attempt) return "";
  return by.attempt.empty() ? "this one has no id"
                            : fmt::format("this one has the id `{}`", by.attempt);
}

// One whose ranks are told what those of `by` are; without waiting for it.
std::optional<JobAtPort> find_contender(KvStore& store, const StartedBy& by, Deadline deadline) {
  // Where there is no such key, torch's store gives back what it was asked to expect.
  const Bytes nobody = to_bytes(kNobody);
  const auto value = store.compare_exchange(kContenderKey, nobody, nobody, deadline);
  if (!value || value->empty() || *value == nobody) return std::nullopt;
  const auto job = read_value(*value);
  return job && difference_to(*job, by).empty() ? std::optional(*job) : std::nullopt;
}

}  // namespace

Status own_port(KvStore& store, const StartedBy& by, const MeetingProcess& self,
                Deadline deadline) {
  return store.set(kOwnerKey, to_value(by, self), deadline);
}

Status check_port_owner(KvStore& store, const StartedBy& by, const MeetingProcess& self,
                        Deadline deadline) {
  const auto value = store.get(kOwnerKey, deadline);
  if (!value) return with_context(value.error(), "rank 0 did not come");
  MUSTER_ASSIGN(const JobAtPort owner, read_value(*value));
  if (const std::string difference = difference_to(owner, by); !difference.empty())
    return is_of_another(by, owner, difference);
  if (self.program.empty() || self.program == owner.first.program) return ok();
  const auto contender = find_contender(store, by, deadline);
  if (!contender || contender->first.program != self.program) return ok();
  return is_of_another(by, owner,
                       fmt::format("this one's rank 0, pid {} on {}, was turned away there",
                                   contender->first.pid, contender->first.host));
}

std::optional<Error> contest_port(KvStore& store, const StartedBy& by, const MeetingProcess& self,
                                  Deadline deadline) {
  const auto value = store.get(kOwnerKey, deadline);
  if (!value) return std::nullopt;
  const auto owner = read_value(*value);
  if (!owner) return std::nullopt;
  // Of the owner's it is no business whether that came through.
  static_cast<void>(store.set(kContenderKey, to_value(by, self), deadline));
  const std::string difference = difference_to(*owner, by);
  return is_of_another(by, *owner,
                       difference.empty() ? "this one has a rank 0 of its own" : difference);
}

std::string contender_at_port(KvStore& store, const StartedBy& by, Deadline deadline) {
  const auto contender = find_contender(store, by, deadline);
  return contender ? described(*contender) : "";
}

std::string seat_is_taken(const net::Address& meeting, std::int32_t rank, const std::string& host,
                          std::int32_t pid) {
  return fmt::format(
      "{} already serves another job, or this rank was started twice: rank {} there "
      "is pid {} on {}; {}",
      named_port(meeting), rank, pid, host, kCure);
}

}  // namespace muster::cluster
