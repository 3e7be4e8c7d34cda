#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>
#include <future>
#include <span>

#include "muster/cluster/environment.h"
#include "muster/cluster/launcher.h"
#include "muster/cluster/local_job.h"
#include "muster/cluster/whereabouts.h"
#include "muster/net/network.h"

namespace muster::cluster {
namespace {

class LocalLauncher : public Launcher {
 public:
  LocalLauncher(Processes& processes, Files& files, Logger log, Clock& clock)
      : processes_(processes), files_(files), log_(std::move(log)), clock_(clock) {}

  Result<JobEnd> run(const LaunchSpec& spec, LaunchObserver& observer) override;

 private:
  using Workers = std::vector<std::unique_ptr<WorkerProcess>>;

  Result<std::unique_ptr<WorkerProcess>> spawn(const LaunchSpec& spec,
                                               const net::Address& coordinator,
                                               const std::string& credentials, std::int32_t worker,
                                               bool joins);
  Result<std::unique_ptr<WorkerProcess>> spawn_remote(const LaunchSpec& spec,
                                                      const RemoteStart& start);
  Result<Workers> spawn_all(const LaunchSpec& spec, const LocalJob::Spawn& spawn);

  Processes& processes_;
  Files& files_;
  Logger log_;
  Clock& clock_;
};

// For those who start workers elsewhere; worth nothing once the job is over.
struct CredentialsFile {
  Files& files;
  Path path;  // empty: none
  // Workers may wait for it: they find none, that of a launcher that was killed, or all of it.
  Status write(const std::string& text) const {
    Path fresh = path;
    fresh += ".new";
    MUSTER_TRY(files.remove_all(fresh));
    MUSTER_ASSIGN(const auto file, files.open(fresh, Files::Open::kSecret));
    MUSTER_TRY(file->append(std::as_bytes(std::span(text))));
    MUSTER_TRY(file->close());
    return files.rename(fresh, path);
  }
  ~CredentialsFile() {
    if (!path.empty()) static_cast<void>(files.remove_all(path));
  }
};

// Of those that it begins with, on this host.
std::int32_t started_here(const LaunchSpec& spec) {
  return std::min(spec.workers, most_here(spec));
}

RemoteStart remote_start(const LaunchSpec& spec, std::int32_t worker) {
  const auto& hosts = spec.remote.hosts;
  const auto at = hosts.begin() + (worker - most_here(spec));
  return {.host = *at,
          .worker = worker,
          .local_worker = static_cast<std::int32_t>(std::count(hosts.begin(), at, *at)),
          .local_workers = static_cast<std::int32_t>(std::ranges::count(hosts, *at))};
}

CoordinatorOptions coordinator_options(const LaunchSpec& spec) {
  CoordinatorOptions options;
  options.policy.start_workers = spec.workers;
  options.policy.max_workers = std::max(spec.workers, spec.max_workers);
  options.own = own_workers(spec);
  options.policy.min_workers = spec.min_workers;
  options.policy.majority = spec.majority;
  options.policy.keeps_ranks = spec.keeps_ranks;
  options.policy.standbys = spec.standbys;
  options.policy.heartbeat_timeout = spec.heartbeat_timeout;
  // Otherwise a mistake would end the job.
  options.policy.learns = spec.min_workers < spec.workers || spec.max_restarts > 0;
  // None can be done without, and those of other hosts are not this launcher's to start.
  if (spec.min_workers >= options.policy.max_workers)
    options.policy.irreplaceable_from = options.own;
  options.join_timeout = spec.join_timeout;
  options.calm = spec.calm;
  options.data_patience = spec.data_patience;
  options.enlistment = spec.enlistment;
  options.version = spec.version;
  return options;
}

// Ends before what it tells.
std::shared_ptr<void> watch_host(const LaunchSpec& spec, net::Loop& loop, LocalJob& job) {
  if (!spec.watch_host) return nullptr;
  return spec.watch_host(
      [&loop, &job](const std::string& from) { loop.post([&job, from] { job.on_notice(from); }); });
}

Result<JobEnd> LocalLauncher::run(const LaunchSpec& spec, LaunchObserver& observer) {
  if (spec.workers < 1 || spec.command.empty())
    return fail(ErrorCode::kInvalid,
                "[cluster/launcher] a job needs a command and at least one worker");
  const auto loop = net::create_loop("launcher", log_, clock_);
  MUSTER_ASSIGN(const auto credentials, net::create_credentials(clock_.wall()));
  MUSTER_ASSIGN(const auto network, net::create_network(*loop, credentials, {}, log_));

  std::promise<void> over;
  LocalJob job(*loop, spec, observer, files_, log_, [&over] { over.set_value(); });
  const net::Address address = spec.listen.value_or(net::Address{"127.0.0.1", 0});
  MUSTER_ASSIGN(auto coordinator, create_coordinator(*network, address, coordinator_options(spec),
                                                     job.coordinator_events(), log_));
  const CredentialsFile shown{files_, spec.listen ? spec.credentials : Path()};
  if (!shown.path.empty()) {
    MUSTER_TRY(shown.write(
        fmt::format("{} {}\n", net::to_string(coordinator->address()), to_text(credentials))));
    observer.on_listening(coordinator->address());
  }
  const auto signals = loop->on_signals({SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2},
                                        [&job](int number) { job.on_signal(number); });
  const net::StopAtEnd stop_first{*loop};
  // Whatever arrives while the workers are started waits for begin(), which is posted first.
  std::promise<void> begun;
  auto gate = begun.get_future().share();
  loop->post([gate] { gate.wait(); });
  const LocalJob::Spawn spawn_one = [&](std::int32_t worker, bool joins, const std::string& host) {
    if (host.empty() && worker < most_here(spec))
      return spawn(spec, coordinator->address(), to_text(credentials), worker, joins);
    RemoteStart start =
        host.empty() ? remote_start(spec, worker) : RemoteStart{.host = host, .worker = worker};
    start.joins = joins;
    start.coordinator = coordinator->address();
    start.credentials = to_text(credentials);
    return spawn_remote(spec, start);
  };
  auto workers = spawn_all(spec, spawn_one);
  if (workers) loop->post([&] { job.begin(*coordinator, std::move(*workers), spawn_one); });
  const auto watch = workers ? watch_host(spec, *loop, job) : nullptr;
  begun.set_value();
  if (!workers) return workers.error();
  over.get_future().wait();  // bounded by the workers' lives; their waits have deadlines
  loop->stop();
  return job.result();
}

Result<LocalLauncher::Workers> LocalLauncher::spawn_all(const LaunchSpec& spec,
                                                        const LocalJob::Spawn& spawn) {
  if (!spec.log_folder.empty()) MUSTER_TRY(files_.create_folders(spec.log_folder));
  Workers workers;
  for (std::int32_t worker = 0; worker < spec.workers; ++worker) {
    MUSTER_ASSIGN(auto started, spawn(worker, false, ""));
    workers.push_back(std::move(started));
  }
  return workers;
}

Result<std::unique_ptr<WorkerProcess>> LocalLauncher::spawn(const LaunchSpec& spec,
                                                            const net::Address& coordinator,
                                                            const std::string& credentials,
                                                            std::int32_t worker, bool joins) {
  const auto cores = spec.cores.empty() ? available_cores() : spec.cores;
  const std::int32_t own = most_here(spec);  // cores are shared out among so many
  const auto share = share_cores(cores, own)[static_cast<std::size_t>(worker)];
  MUSTER_ASSIGN(auto whereabouts, Whereabouts::create());
  const WorkerEnvironment environment{.coordinator = coordinator,
                                      .worker = worker,
                                      .workers = spec.workers,
                                      .local_worker = worker,
                                      .local_workers = started_here(spec),
                                      .lanes = static_cast<std::int32_t>(share.size()),
                                      .credentials = credentials,
                                      .whereabouts = whereabouts->address(),
                                      .host_is_watched = spec.watch_host != nullptr};
  ProcessSpec process{.command = spec.command,
                      .environment = to_variables(environment),
                      .folder = {},
                      .cores = {},
                      .held_signals = spec.held_signals};
  process.environment.insert(spec.environment.begin(), spec.environment.end());
  if (joins && !spec.join_flag.empty()) process.command.push_back(spec.join_flag);
  if (spec.pin && cores.size() >= static_cast<std::size_t>(own)) process.cores = share;
  MUSTER_ASSIGN(auto log, open_worker_log(files_, spec.log_folder, worker));
  MUSTER_ASSIGN(auto started, processes_.spawn(process));
  auto process_seen =
      std::make_unique<WorkerProcess>(Rank{worker}, std::move(started), std::move(log), log_);
  process_seen->read_from(std::move(whereabouts));
  return process_seen;
}

Result<std::unique_ptr<WorkerProcess>> LocalLauncher::spawn_remote(const LaunchSpec& spec,
                                                                   const RemoteStart& start) {
  MUSTER_ASSIGN(auto log, open_worker_log(files_, spec.log_folder, start.worker));
  MUSTER_ASSIGN(auto started, spec.remote.start(start));
  auto process_seen =
      std::make_unique<WorkerProcess>(Rank{start.worker}, std::move(started), std::move(log), log_);
  process_seen->stands_for(start.host);
  return process_seen;
}

// The end of what it wrote, as a part of one line: the last line that says something, and of a long
// one the beginning.
std::string last_words(const std::vector<std::string>& lines) {
  constexpr std::size_t kLongest = 200;  // bytes
  const auto says = [](const std::string& line) {
    return line.find_first_not_of(" \t\r") != std::string::npos;
  };
  const auto last = std::find_if(lines.rbegin(), lines.rend(), says);
  if (last == lines.rend()) return "";
  std::string words = last->substr(last->find_first_not_of(" \t\r"));
  words.erase(words.find_last_not_of(" \t\r") + 1);
  std::replace_if(
      words.begin(), words.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  if (words.size() <= kLongest) return words;
  std::size_t end = kLongest;
  while ((static_cast<unsigned char>(words[end]) & 0xc0U) == 0x80U) --end;  // whole characters
  return words.substr(0, end) + "…";
}

// What to do about an end of which the worker could say nothing (docs/errors.md); the first whose
// beginning fits.
struct Hint {
  std::string_view reason;
  std::string_view text;
  std::string_view end = {};  // of the reason
  bool names_cause = true;    // else what the worker wrote has to
};
constexpr Hint kHints[] = {
    {"killed by SIGKILL, as the system does for lack of memory",
     "fewer workers on this host, a smaller training.micro_batch_size or training.recompute need "
     "less memory"},
    {"killed by SIGKILL",
     "neither muster nor, as far as it sees, the system for lack of memory has done it: somebody "
     "by hand, a batch system at its limits, or a container at its own"},
    {"killed by SIGSEGV",
     "a fault of the program or of a library where it comes again in the same way; of the memory "
     "where it comes somewhere else each time"},
    {"killed by SIGBUS",
     "a file that it reads was cut off under it, the disk cannot be read, or memory is faulty: "
     "`dmesg` says which"},
    {"killed by SIGABRT", "it ended itself", "", false},
    {"killed by SIGILL",
     "it is built for another processor, or training.isa asks for what this one lacks: see "
     "`muster doctor`, and build it on this host"},
    {"lost its ",
     "its host was shut down or cannot be reached any more, or sshd or the scheduler there has "
     "ended "
     "it; where ssh had something to say, it is in its last lines",
     " session"},
    {"exit status 127",
     "its program, or a library that it needs, is not there: `muster doctor` says what is missing"},
    {"exit status ", "it ended without saying so to the others", "", false},
};

// Where a cause may stand that a hint does not name.
std::string where_more_is(const JobFailure& failure) {
  const bool has_lines = !failure.last_lines.empty();
  const bool has_log = !failure.log.empty();
  if (has_lines && has_log) return "; its last lines and its log say more";
  if (has_lines) return "; its last lines say more";
  return has_log ? "; its log may say more" : "; it wrote nothing";
}

std::string hint_of(const JobFailure& failure) {
  if (failure.error.code != ErrorCode::kPeerLost) return {};  // it said itself what there is to do
  const auto* fits = std::ranges::find_if(kHints, [&](const Hint& hint) {
    return failure.reason.starts_with(hint.reason) && failure.reason.ends_with(hint.end);
  });
  if (fits == std::end(kHints)) return {};
  return std::string(fits->text) + (fits->names_cause ? "" : where_more_is(failure));
}

// What it said itself, if it did.
std::string words_of(const JobFailure& loss) {
  if (loss.reason != kReportedAnError) return "";
  return fmt::format(" ({})",
                     last_words({loss.error.message.substr(0, loss.error.message.find('\n'))}));
}

}  // namespace

std::int32_t own_workers(const LaunchSpec& spec) noexcept {
  const bool starts_more = spec.scale && !spec.request_workers;
  return starts_more ? std::max(spec.workers, spec.max_workers) : spec.workers;
}

std::int32_t most_here(const LaunchSpec& spec) noexcept {
  return own_workers(spec) - static_cast<std::int32_t>(spec.remote.hosts.size());
}

std::string host_of(const LaunchSpec& spec, std::int32_t worker) {
  const std::int32_t here = most_here(spec);
  return worker < here ? "" : spec.remote.hosts.at(static_cast<std::size_t>(worker - here));
}

std::unique_ptr<Launcher> create_local_launcher(Processes& processes, Files& files, Logger log,
                                                Clock& clock) {
  return std::make_unique<LocalLauncher>(processes, files, std::move(log), clock);
}

// As everybody's own messages name a worker: Trainer::tell_of_worker().
std::string describe_loss_briefly(const JobFailure& loss, const Remainder& left) {
  std::string text = fmt::format("worker {}", to_int(loss.rank));
  if (loss.pid > 0)
    text += fmt::format(" (pid {}{})", loss.pid, loss.host.empty() ? "" : " on " + loss.host);
  else if (!loss.host.empty())
    text += " on " + loss.host;
  const std::string place = left.begun ? describe(loss.progress) : "as it started";
  text += fmt::format(" {}{} {}{}; {} {}worker{} left, ", loss.reason, words_of(loss),
                      loss.last_heard ? "after it was last heard of " : "", place, left.workers,
                      left.begun ? "" : "other ", left.workers == 1 ? " is" : "s are");
  if (!left.begun) {
    text += left.wanted > 0 ? "and one comes in its place" : "which begin without it";
  } else if (left.wanted == 0) {
    text += left.workers > 0 ? "going on" : "and the job ends without it";
  } else {
    text += fmt::format("waiting until {} more {} joined ({})", left.wanted,
                        left.wanted == 1 ? "has" : "have", left.rule);
    if (!left.missing.empty())
      text += fmt::format("; missing: worker{} {}", left.missing.size() == 1 ? "" : "s",
                          fmt::join(left.missing, ", "));
  }
  return text;
}

std::string describe_loss(const JobFailure& loss, const Remainder& left) {
  std::string text = describe_loss_briefly(loss, left);
  const std::string said = last_words(loss.last_lines);
  if (!loss.log.empty()) text += "; its log: " + loss.log;
  if (!said.empty()) text += (loss.log.empty() ? "; its last line: " : " ends with: ") + said;
  return text;
}

std::string describe(const JobFailure& failure) {
  // A job that asks for what cannot be: every worker says so, and none is to blame.
  if (failure.error.code == ErrorCode::kInvalid && to_int(failure.progress.step) == 0)
    return failure.error.message;
  if (failure.rank == kNoRank)
    return failure.error.message + (failure.action.empty() ? "" : "\n  " + failure.action);
  std::string text = fmt::format(
      "rank {}{}{}: {}", to_int(failure.rank), failure.host.empty() ? "" : " on " + failure.host,
      failure.pid > 0 ? fmt::format(" (pid {})", failure.pid) : "", failure.reason);
  // Where the launcher had to guess, the error only repeats the reason.
  const std::string& message = failure.error.message;
  if (!message.empty() && !message.ends_with(failure.reason)) text += "\n  " + message;
  if (!failure.progress.phase.empty() || !failure.progress.operation.empty())
    text += fmt::format("\n  it was {}{}", failure.last_heard ? "last heard of " : "",
                        describe(failure.progress));
  if (!failure.action.empty()) text += "\n  " + failure.action;
  if (const auto hint = hint_of(failure); !hint.empty()) text += fmt::format("\n  hint: {}", hint);
  auto lines = failure.last_lines;
  if (!message.empty()) {
    const std::string said = message.substr(0, message.find('\n'));
    std::erase_if(lines, [&](const std::string& line) {
      constexpr std::string_view kMark = "[ERROR] ";
      const bool is_begun = line.starts_with(kMark) && said.starts_with(line.substr(kMark.size()));
      return is_begun || line.find(said) != std::string::npos;  // begun: not all of it was read
    });
  }
  if (!lines.empty()) {
    text += "\n  its last lines:";
    for (const auto& line : lines) text += "\n    " + line;
  }
  if (!failure.log.empty()) text += "\n  its log: " + failure.log;
  return text;
}

}  // namespace muster::cluster
