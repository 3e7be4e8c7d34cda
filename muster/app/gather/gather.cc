#include "muster/app/gather/gather.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include "muster/app/version/version.h"
#include "muster/base/random.h"
#include "muster/base/system_error.h"
#include "muster/base/unique_fd.h"
#include "muster/base/units.h"
#include "muster/cluster/environment.h"
#include "muster/cluster/launcher.h"
#include "muster/cluster/launchers/agents/agents.h"
#include "muster/cluster/meeting.h"
#include "muster/cluster/process_group.h"

namespace muster::app {
namespace {

constexpr Duration kStart = std::chrono::seconds(15);  // of the program that knows the store
// Of an agent at a place where nobody is, until it asks the store again.
constexpr Duration kAskAgain = std::chrono::seconds(5);
// For those that come after the end, and for those that are there.
constexpr Duration kGoodbye = std::chrono::seconds(10);
constexpr Duration kShortGoodbye = std::chrono::seconds(2);

cluster::Attend this_process(std::int32_t number, const cluster::GivenJob& job) {
  const cluster::WorkerInfo here = cluster::describe_this_process(number);
  return {.number = number,
          .host = here.host,
          .boot_id = here.boot_id,
          .pid = here.pid,
          .cores = cluster::available_cores(),
          .version = build_version(),
          .job = job};
}

// What it runs is its job; one that cannot be read tells nothing.
cluster::MeetingProcess meeting_process(const cluster::Attend& self) {
  std::string fields;
  for (const auto& [field, value] : self.job.values)
    fields += fmt::format("{}: {}\n", field, value);
  return {.host = self.host,
          .pid = self.pid,
          .program = fields.empty() ? "" : fmt::format("job {:x}", stable_hash(fields))};
}

// The program that asks torch's store, or keeps it, and what it has said.
class Errand final : public cluster::ProcessGroupObserver {
 public:
  Errand(const Path& program, const cluster::StoreErrand& errand)
      : spec_{.processes = {{.command = {program.string(), "--rendezvous"},
                             .environment = {},
                             .folder = {},
                             .cores = {},
                             .input = cluster::to_line(errand)}}} {}
  void on_line(std::size_t /*process*/, bool is_error, std::string_view line) override {
    (is_error ? error_ : answer_) = line;
  }

  struct Done {
    std::string answer;
    std::optional<int> interrupted;  // by this signal
  };
  // Blocks until it has ended.
  Result<Done> run(std::optional<int> leash, std::optional<Duration> at_most, Processes& processes,
                   const Logger& log) {
    spec_.leash = leash;
    spec_.at_most = at_most;
    MUSTER_ASSIGN(const auto end, cluster::run_process_group(spec_, processes, *this, log));
    if (end.signal) return Done{{}, end.signal};
    const ProcessEnd& how = end.members.front().end;
    if (how.exit_status == 0) return Done{answer_, {}};
    return fail(how.exit_status ? error_code(*how.exit_status) : ErrorCode::kUnavailable,
                error_.empty() ? "[world] muster-worker --rendezvous: " + describe(how) : error_);
  }

 private:
  cluster::ProcessGroupSpec spec_;
  std::string answer_, error_;  // the last line of each
};

// The program that has told the others of this place, and keeps torch's store where rank 0 does.
class StoreKeeper {
 public:
  // `on_end`, on another thread: it ended by itself, for a signal or an Error.
  static Result<std::unique_ptr<StoreKeeper>> start(const Path& program,
                                                    const cluster::StoreErrand& errand,
                                                    std::function<void(const Error&)> on_end,
                                                    Processes& processes, const Logger& log) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return system_error("app/gather", "pipe", errno);
    return std::make_unique<StoreKeeper>(Ends{UniqueFd(ends[0]), UniqueFd(ends[1])},
                                         Errand(program, errand), std::move(on_end), processes,
                                         log);
  }

  struct Ends {
    UniqueFd leash, hold;
  };
  StoreKeeper(Ends ends, Errand errand, std::function<void(const Error&)> on_end,
              Processes& processes, const Logger& log)
      : ends_(std::move(ends)),
        errand_(std::move(errand)),
        thread_([this, on_end = std::move(on_end), &processes, log] {
          auto end = errand_.run(ends_.leash.get(), std::nullopt, processes, log);
          const std::lock_guard lock(mutex_);
          if (end) interrupted_ = end->interrupted;
          if (!is_let_go_) on_end(end ? fail(ErrorCode::kCancelled, "stopped") : end.error());
          is_over_ = true;
        }) {}
  StoreKeeper(const StoreKeeper&) = delete;
  StoreKeeper& operator=(const StoreKeeper&) = delete;
  ~StoreKeeper() { let_go(); }

  // Nobody needs it any more. The signal that has ended it, if one has.
  std::optional<int> let_go() {
    {
      const std::lock_guard lock(mutex_);
      is_let_go_ = true;
    }
    ends_.hold.reset();  // the leash ends, and with it the program
    if (thread_.joinable()) thread_.join();
    return interrupted_;
  }
  bool is_over() {
    const std::lock_guard lock(mutex_);
    return is_over_;
  }

 private:
  Ends ends_;
  Errand errand_;
  std::mutex mutex_;
  bool is_let_go_ = false;
  bool is_over_ = false;
  std::optional<int> interrupted_;
  std::thread thread_;  // last: uses the others
};

Error as_started(const cluster::StartedBy& by, const Error& why) {
  return with_context(
      why, fmt::format("[train] rank {} of {}, started by {}", by.rank, by.ranks, by.launcher));
}

std::string waited_for(const cluster::MeetingPatience& patience) {
  return fmt::format(" within {} ({})", format_duration(patience.limit), patience.said_by);
}

Error rank_0_missing(const cluster::StartedBy& by, const cluster::MeetingPatience& patience,
                     Error why) {
  why.message += fmt::format("; rank 0 did not come{}; {}", waited_for(patience),
                             cluster::how_ranks_are_started(by));
  return why;
}

class GatheringHere final : public Gathering {
 public:
  GatheringHere(cluster::StartedBy by, cluster::MeetingPatience patience)
      : by_(std::move(by)), began_(system_clock().now()), patience_(patience) {}

  Status open(const cluster::GivenJob& job, const Path& worker_program, Processes& processes,
              const Logger& log) {
    self_ = this_process(0, job);
    const std::string doubt = cluster::doubt_about_meeting(by_.meeting);
    if (!doubt.empty()) log->warn("{}", doubt);
    MUSTER_ASSIGN(const auto own, cluster::meeting_credentials(system_clock().wall()));
    MUSTER_ASSIGN(agents_,
                  cluster::create_agents(own.credentials, cluster::meeting_listen_address(by_),
                                         by_.meeting, by_.ranks - 1, self_, log));
    const net::Address place{by_.meeting.host, agents_->address().port};
    MUSTER_ASSIGN(keeper_,
                  StoreKeeper::start(
                      worker_program,
                      {.by = by_,
                       .self = meeting_process(self_),
                       .patience = left(),
                       .text = cluster::meeting_text(place, own)},
                      [this](const Error& why) { agents_->give_up(why); }, processes, log));
    return ok();
  }

  Result<AgentWorkers> wait_for_all(Duration join_timeout) override {
    MUSTER_ASSIGN(patience_, cluster::meeting_patience(cluster::system_variable, join_timeout));
    auto all = agents_->wait_for_all(Deadline::after(system_clock(), left()));
    // Whoever has yet to come learns of the end through it.
    const bool is_over = all.has_value() || keeper_->is_over();
    if (const auto signal = is_over ? keeper_->let_go() : std::nullopt)
      return AgentWorkers{.launcher = by_.launcher, .interrupted = signal};
    if (!all) return as_started(by_, with_patience(all.error()));
    return AgentWorkers{
        .launcher = by_.launcher,
        .address = by_.meeting.host,
        .self = self_,
        .agents = std::move(*all),
        .start = [this](std::int32_t number,
                        std::string input) { return agents_->start(number, std::move(input)); },
        .is_there = [this](std::int32_t number) { return agents_->is_there(number); }};
  }

  void conclude(ExitCode code) override {
    // Whoever has not come by then does not come.
    const Duration rest = keeper_->is_over() ? Duration(0) : left();
    agents_->conclude(code,
                      Deadline::after(system_clock(), std::clamp(rest, kShortGoodbye, kGoodbye)));
  }

 private:
  Duration left() const {
    return std::max(Duration(0), began_ + patience_.limit - system_clock().now());
  }

  Error with_patience(Error why) const {
    if (why.code == ErrorCode::kTimeout)
      why.message +=
          fmt::format("{}; {}", waited_for(patience_), cluster::how_ranks_are_started(by_));
    return why;
  }

  const cluster::StartedBy by_;
  const TimePoint began_;
  cluster::MeetingPatience patience_;
  cluster::Attend self_;
  std::unique_ptr<cluster::Agents> agents_;
  std::unique_ptr<StoreKeeper> keeper_;  // goes first: it calls the agents
};

}  // namespace

Result<std::unique_ptr<Gathering>> gather(const cluster::StartedBy& by,
                                          const cluster::GivenJob& job, const Path& worker_program,
                                          Processes& processes, const Logger& log) {
  MUSTER_ASSIGN(const auto patience, cluster::meeting_patience(cluster::system_variable));
  auto gathering = std::make_unique<GatheringHere>(by, patience);
  if (auto opened = gathering->open(job, worker_program, processes, log); !opened)
    return as_started(by, opened.error());
  return gathering;
}

Result<ExitCode> attend_gathering(const cluster::StartedBy& by, const cluster::GivenJob& job,
                                  std::optional<Duration> join_timeout, const Path& worker_program,
                                  const std::vector<std::string>& command, Processes& processes,
                                  const Logger& log) {
  MUSTER_ASSIGN(const auto patience,
                cluster::meeting_patience(cluster::system_variable, join_timeout));
  const Deadline deadline = Deadline::after(system_clock(), patience.limit);
  const cluster::Attend self = this_process(by.rank, job);
  Result<ExitCode> code = fail(ErrorCode::kTimeout, "rank 0 did not come");
  // A store that the launcher keeps may still tell of a place before this one, where nobody is.
  while (code.error().code == ErrorCode::kTimeout || code.error().code == ErrorCode::kUnavailable) {
    const Duration left = deadline.left(system_clock());
    if (left <= Duration(0)) break;
    auto told = Errand(worker_program,
                       {.by = by, .self = meeting_process(self), .patience = left, .text = {}})
                    .run({}, left + kStart, processes, log);
    if (!told && deadline.passed(system_clock()))
      return as_started(by, rank_0_missing(by, patience, told.error()));
    if (!told) return as_started(by, told.error());
    if (told->interrupted) return static_cast<ExitCode>(128 + *told->interrupted);
    MUSTER_ASSIGN(const auto meeting, cluster::read_meeting(told->answer));
    MUSTER_ASSIGN(const auto credentials, net::credentials_from_text(meeting.credentials));
    code =
        cluster::attend({.self = self, .launcher = meeting.place, .command = command}, credentials,
                        Deadline::after(system_clock(), std::min(left, kAskAgain)), processes, log);
    if (code) break;
  }
  if (!code) return as_started(by, code.error());
  if (*code != ExitCode::kDone && static_cast<int>(*code) < 128)  // a signal explains itself
    log->info("[train] rank {} of {}: the job has ended with exit code {}, which rank 0 explains",
              by.rank, by.ranks, static_cast<int>(*code));
  return code;
}

}  // namespace muster::app
