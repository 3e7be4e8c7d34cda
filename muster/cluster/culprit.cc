#include "muster/cluster/culprit.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

namespace muster::cluster {
namespace {

enum class Strength : std::uint8_t { kOwnFault, kSilent, kAccused, kDisconnected, kGaveUp };

struct Charge {
  Strength strength;
  TimePoint at;
  Rank rank;
  std::string reason;
  std::optional<Error> account;
  bool operator<(const Charge& other) const {
    return std::tie(strength, at) < std::tie(other.strength, other.at);
  }
};

using Workers = std::vector<Evidence>;

bool accuses_another(const Evidence& worker) {
  return worker.reported && worker.reported->peer != kNoRank &&
         worker.reported->peer != worker.rank;
}

// Who comes in the place of an accused is not accused.
bool is_here(const Evidence& accuser, const Workers& workers) {
  return std::ranges::any_of(workers, [&](const Evidence& worker) {
    return worker.rank == accuser.reported->peer && worker.process == accuser.accused;
  });
}

bool is_consequence(const Error& error) {
  return error.code == ErrorCode::kPeerLost || error.code == ErrorCode::kCancelled ||
         error.code == ErrorCode::kStale;
}

bool ended_badly(const Evidence& worker, std::optional<int> accepted_exit) {
  if (!worker.end || was_excluded(worker)) return false;
  // Killed on its way out, after it had done all it had to.
  if (worker.end->signal) return !(worker.left && worker.end->signal == SIGKILL);
  if (worker.end->exit_status == 0) return worker.joined && !worker.left;
  return worker.end->exit_status != accepted_exit;
}

std::string reason_of_end(const Evidence& worker) {
  const auto text = describe(*worker.end);
  return worker.end->exit_status == 0 ? text + " before the job was over" : text;
}

Charge charge_for_report(const Evidence& worker, const Workers& workers) {
  const Error& told = *worker.reported;
  if (accuses_another(worker) && is_here(worker, workers)) {
    if (told.code == ErrorCode::kNumeric)
      return {Strength::kOwnFault, worker.reported_at, told.peer, std::string(kReportedAnError),
              told};
    return {Strength::kAccused,
            worker.reported_at,
            told.peer,
            fmt::format("rank {} lost it", to_int(worker.rank)),
            {}};
  }
  if (worker.gave_up())
    return {Strength::kGaveUp, worker.reported_at, worker.rank, "gave up", told};
  return {Strength::kOwnFault, worker.reported_at, worker.rank, std::string(kReportedAnError),
          told};
}

void charge_for_loss(const Evidence& worker, std::vector<Charge>& charges) {
  if (worker.lost->code == ErrorCode::kCorrupt) {
    charges.push_back(
        {Strength::kOwnFault, worker.lost_at, worker.rank, "held other bits than the others", {}});
    return;
  }
  const bool silent = worker.lost->code == ErrorCode::kTimeout;
  if (worker.lost->code == ErrorCode::kUnavailable) {
    charges.push_back({Strength::kSilent,
                       worker.lost_at,
                       worker.rank,
                       "lives, but does not answer the others",
                       {}});
    return;
  }
  const auto reason = !silent           ? "lost its connection"
                      : worker.stood_by ? "stopped answering as a standby"
                      : worker.joined   ? "was silent for too long"
                                        : "did not join in time";
  charges.push_back({silent ? Strength::kSilent : Strength::kDisconnected,
                     worker.lost_at,
                     worker.rank,
                     reason,
                     {}});
}

std::vector<Charge> all_charges(const Workers& workers, std::optional<int> accepted_exit) {
  std::vector<Charge> charges;
  for (const auto& worker : workers) {
    if (worker.reported) charges.push_back(charge_for_report(worker, workers));
    // One that told why it ends, or was told to, is judged by what it said.
    if (!worker.reported && ended_badly(worker, accepted_exit))
      charges.push_back(
          {Strength::kOwnFault, worker.end_at, worker.rank, reason_of_end(worker), {}});
    if (!worker.reported && worker.lost) charge_for_loss(worker, charges);
  }
  return charges;
}

// Whom the accused accuses himself, and so on: the end of the chain broke first.
Rank end_of_chain(Rank accused, const Workers& workers) {
  for (std::size_t step = 0; step < workers.size(); ++step) {
    const auto found = std::find_if(workers.begin(), workers.end(),
                                    [&](const auto& worker) { return worker.rank == accused; });
    if (found == workers.end() || !accuses_another(*found) || !is_here(*found, workers))
      return accused;
    accused = found->reported->peer;
  }
  return accused;
}

}  // namespace

bool Evidence::gave_up() const noexcept {
  if (!reported) return false;
  const bool misses =
      reported->code == ErrorCode::kTimeout || reported->code == ErrorCode::kUnavailable;
  return is_consequence(*reported) || (misses && accuses_another(*this));
}

bool was_excluded(const Evidence& worker) {
  if (!worker.joined || !worker.lost || worker.lost->code == ErrorCode::kPeerLost) return false;
  return worker.end && worker.end->exit_status && worker.lost_at <= worker.end_at;
}

std::optional<Verdict> judge(const std::vector<Evidence>& workers,
                             std::optional<int> accepted_exit) {
  const auto charges = all_charges(workers, accepted_exit);
  if (charges.empty()) return std::nullopt;
  const auto& worst = *std::min_element(charges.begin(), charges.end());
  Verdict verdict{worst.rank, worst.reason, worst.strength == Strength::kOwnFault, worst.account};
  if (worst.strength == Strength::kAccused) verdict.culprit = end_of_chain(worst.rank, workers);
  return verdict;
}

std::string why_it_ends(const Evidence& culprit, bool begun, std::int32_t left, const Least& least,
                        bool again) {
  if (again && !culprit.joined)
    return "the job ends: a worker before it ended in the same way as it started, so the others "
           "would as well";
  if (!begun) return "the job ends: it had not begun";
  if (again)
    return "the job ends: a worker before it ended in the same way at the same step, so the others "
           "would as well";
  if (!culprit.is_alone() && culprit.joined)
    return "the job ends: what a worker tells of itself the others would meet as well";
  if (left == 0 && culprit.reported && !culprit.gave_up())
    return "the job ends: nobody is left, and who comes in its place would meet the same";
  return fmt::format(
      "the job ends: {} worker{} left, {} needed ({}), and no new one comes "
      "(workers.max_restarts)",
      left, left == 1 ? " is" : "s are",
      least.workers == 1 ? "1 is" : fmt::format("{} are", least.workers), least.rule);
}

}  // namespace muster::cluster
