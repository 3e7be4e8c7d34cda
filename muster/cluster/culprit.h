#pragma once
// Who broke the job: a pure judgement over what is known of each worker. One death makes every
// other worker fail too, within milliseconds and often reported first; the culprit is the one whose
// failure the others' failures can be explained by.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/process.h"
#include "muster/cluster/messages.h"

namespace muster::cluster {

struct Evidence {  // about one worker
  Rank rank = kNoRank;
  std::int64_t process = 0;  // which of all that have been started; another one has the same rank
  bool joined = false;
  bool left = false;      // said a regular good-bye
  bool stood_by = false;  // when it was lost: here, and without a rank
  std::optional<ProcessEnd> end;
  std::optional<Error> reported;       // its own account
  Concerns concerns = Concerns::kAll;  // of that
  std::int64_t accused = 0;            // the process that it means, where it is not its own fault
  std::optional<Error> lost;  // what the coordinator saw: broken connection, silence, no join;
                              // kCorrupt: a fault that is the worker's alone
  TimePoint end_at{};
  TimePoint reported_at{};
  TimePoint lost_at{};

  // Others can go on where it could not, as far as it knows.
  bool is_alone() const noexcept {
    return !reported || concerns == Concerns::kItsHost || gave_up();
  }
  bool gave_up() const noexcept;  // for what others did, or did not do
};

// The others went on without it, and it ended when it was told so: its exit status says no more.
bool was_excluded(const Evidence& worker);

inline constexpr std::string_view kReportedAnError = "reported an error";  // a reason

struct Verdict {
  Rank culprit = kNoRank;
  std::string reason;    // "killed by SIGKILL", "reported an error", "was silent for too long"
  bool certain = false;  // no later evidence can change it
  // What the culprit tells of its fault, or who found it: each worker finds numbers that are no
  // numbers (NaN), and names the one whose part of a sum they came in.
  std::optional<Error> account;
};

// Nothing: nobody has failed. Strongest first, the earliest among equals: a process that died or
// reported a fault of its own; one that has fallen silent or never joined; one that others say they
// lost; one whose connection broke; one that gave up for reasons that are nobody's, or of a process
// that is gone. That another one's numbers are wrong is as good as told by itself.
// `accepted_exit`: an exit status that is no failure, besides 0 (128 + signal after a stop).
std::optional<Verdict> judge(const std::vector<Evidence>& workers,
                             std::optional<int> accepted_exit = std::nullopt);

// So many workers a job needs to go on, and the field that asks for them.
struct Least {
  std::int32_t workers = 1;
  std::string_view rule = "workers.min_workers";
};

// "the job ends: …", for a person. `begun`: everybody had joined; `left`: workers without the
// culprit.
// `again`: another worker had ended in the same way at the same step, or as it started, before.
std::string why_it_ends(const Evidence& culprit, bool begun, std::int32_t left, const Least& least,
                        bool again = false);

}  // namespace muster::cluster
