// How soon a real coordinator has let in members by the thousand, over loopback: from the moment at
// which it listens until every member has been told generation 1 and found itself in it. Members
// are the real client code (cluster::ask_to_join), by the thousand in each of a few processes, each
// with one loop and as many joins under way at once as it has threads.
//
// Prints a row of Markdown over TLS and one over plain TCP, which no job can have: between them are
// the full handshakes, a key exchange and the proof of the pre-shared key on each side, all of the
// coordinator's on one thread. No session tickets: a member comes once.
// Usage: muster_bench_joins [--members 10000] [--processes 2] [--joins-at-once 16] [--over tls]

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/awaited.h"
#include "muster/cluster/coordinator.h"
#include "muster/cluster/member.h"
#include "muster/net/credentials.h"
#include "muster/net/network.h"

namespace muster::cluster {
namespace {

// Of a process, beyond its connections.
constexpr int kOtherFiles = 64;

struct JoinsOptions {
  int members = 10'000;
  int processes = 2;
  int at_once = 16;    // in each process
  bool plain = false;  // one row of the two
  int heartbeat_ms = 1000;
  int patience_s = 120;

  Duration patience() const { return std::chrono::seconds(patience_s); }
  net::NetworkOptions network() const {
    net::NetworkOptions options;
    options.insecure_plaintext = plain;
    return options;
  }
};

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

double cpu_seconds(int who) {
  rusage usage{};
  ::getrusage(who, &usage);
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double resident_kib() {
  std::ifstream statm("/proc/self/statm");
  double pages = 0;
  double resident = 0;
  statm >> pages >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 1024.0;
}

// False: the system grants fewer.
bool allow_files(int files) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const auto wanted = static_cast<rlim_t>(files);
  if (limit.rlim_cur >= wanted) return true;
  limit.rlim_cur = wanted;
  limit.rlim_max = std::max(limit.rlim_max, wanted);  // as root
  if (::setrlimit(RLIMIT_NOFILE, &limit) == 0) return true;
  fmt::print(stderr,
             "[bench/joins] {} open files are needed in one process and {} allowed; raise the "
             "limit (ulimit -Hn) or ask for fewer --members\n",
             files, limit.rlim_max);
  return false;
}

// One way for bytes, between a parent and a child.
struct Pipe {
  int ends[2] = {-1, -1};
  bool open() { return ::pipe(ends) == 0; }
  template <class T>
  bool read(T& into) const {
    return ::read(ends[0], &into, sizeof into) == sizeof into;
  }
  template <class T>
  bool write(const T& from) const {
    return ::write(ends[1], &from, sizeof from) == sizeof from;
  }
};

// The members of one process: numbers `first`, `first` + processes, ….
class Crowd {
 public:
  Crowd(const JoinsOptions& options, net::Network& network, net::Address coordinator, int first)
      : options_(options), network_(network), coordinator_(std::move(coordinator)) {
    for (int number = first; number < options.members; number += options.processes)
      numbers_.push_back(number);
    members_.resize(numbers_.size());
  }

  // True: all are in generation 1, each with its own rank.
  bool join() {
    const Deadline deadline = Deadline::after(network_.loop().clock(), options_.patience());
    std::vector<std::thread> threads;
    for (int thread = 0; thread < options_.at_once; ++thread)
      threads.emplace_back([this, deadline] { join_some(deadline); });
    for (std::thread& thread : threads) thread.join();
    if (failed_) return false;
    return told_.wait(network_.loop().clock(), deadline).value_or(false);
  }

 private:
  void join_some(Deadline deadline) {
    for (std::size_t i = next_++; i < numbers_.size() && !failed_; i = next_++) {
      MemberOptions member;
      member.coordinator = coordinator_;
      member.info = {numbers_[i], "simulated", "boot", static_cast<std::int32_t>(::getpid()), {}};
      member.lists = lists_;
      member.heartbeat_interval = std::chrono::milliseconds(options_.heartbeat_ms);
      auto joined = ask_to_join(network_, std::move(member), deadline, create_null_logger());
      if (!joined) return fail_with(joined.error());
      members_[i] = std::move(*joined);
      watch(*members_[i], numbers_[i]);
    }
  }

  void watch(Member& member, std::int32_t number) {
    const auto seen = std::make_shared<std::atomic<bool>>(false);
    const auto enter = [this, number, seen](const Membership& entered) {
      if (!seen->exchange(true)) note(entered, number);
    };
    member.on_generation(enter);
    if (member.generation() > Generation{0}) enter(member.membership());
  }

  void note(const Membership& entered, std::int32_t number) {
    const auto rank = static_cast<std::size_t>(to_int(entered.rank));
    const bool is_right = entered.size() == options_.members && rank < entered.members.size() &&
                          entered.members[rank].info.worker == number;
    if (!is_right) return giver_->give(false);
    if (++entered_ == static_cast<int>(numbers_.size())) giver_->give(true);
  }

  void fail_with(const Error& why) {
    if (!failed_.exchange(true)) fmt::print(stderr, "{}\n", why.message);
  }

  const JoinsOptions& options_;
  net::Network& network_;
  const net::Address coordinator_;
  const std::shared_ptr<MemberLists> lists_ = std::make_shared<MemberLists>();
  std::vector<std::int32_t> numbers_;
  std::vector<std::unique_ptr<Member>> members_;
  std::atomic<std::size_t> next_{0};
  std::atomic<int> entered_{0};
  std::atomic<bool> failed_{false};
  Awaited<bool> told_;
  const std::shared_ptr<Awaited<bool>::Giver> giver_ = told_.giver();
};

struct Ways {
  Pipe to_crowd;  // the coordinator's port
  Pipe to_coordinator;
};

int run_crowd(const JoinsOptions& options, const net::Credentials& credentials, int first,
              const Ways& ways) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::uint16_t port = 0;
  if (!ways.to_crowd.read(port)) return 4;
  const auto loop = net::create_loop("members", create_null_logger());
  const auto network =
      net::create_network(*loop, credentials, options.network(), create_null_logger());
  if (!network) return 4;
  bool is_in = false;
  {
    Crowd crowd(options, **network, {"127.0.0.1", port}, first);
    is_in = crowd.join();
    ways.to_coordinator.write(is_in);
    ways.to_crowd.read(port);  // until all are in: whoever goes sooner ends the job
    loop->stop();
  }
  return is_in ? 0 : 1;
}

struct JoinsFigures {
  double took = 0;
  double coordinator_cpu = 0;
  double members_cpu = 0;
  double kib_a_member = 0;
};

CoordinatorOptions coordinator_options(const JoinsOptions& options) {
  CoordinatorOptions made;
  made.policy.min_workers = made.policy.max_workers = made.policy.start_workers = options.members;
  made.policy.heartbeat_timeout = made.join_timeout = options.patience();
  made.own = options.members;
  return made;
}

// None: they did not all get in.
std::optional<JoinsFigures> run_coordinator(const JoinsOptions& options,
                                            const net::Credentials& credentials,
                                            const std::vector<Ways>& ways) {
  const auto loop = net::create_loop("coordinator", create_null_logger());
  const auto network =
      net::create_network(*loop, credentials, options.network(), create_stderr_logger());
  if (!network) return std::nullopt;
  const double memory = resident_kib();
  const double cpu = cpu_seconds(RUSAGE_SELF);
  const auto coordinator = create_coordinator(
      **network, {"127.0.0.1", 0}, coordinator_options(options), {}, create_stderr_logger());
  if (!coordinator) return std::nullopt;
  const TimePoint start = system_clock().now();
  for (const Ways& way : ways) way.to_crowd.write((*coordinator)->address().port);
  bool all = true;
  for (const Ways& way : ways) {
    bool is_in = false;
    all &= way.to_coordinator.read(is_in) && is_in;
  }
  JoinsFigures figures;
  figures.took = std::chrono::duration<double>(system_clock().now() - start).count();
  figures.coordinator_cpu = cpu_seconds(RUSAGE_SELF) - cpu;
  figures.kib_a_member = (resident_kib() - memory) / options.members;
  for (const Ways& way : ways) way.to_crowd.write(std::uint16_t{0});
  return all ? std::optional(figures) : std::nullopt;
}

void print_head() {
  fmt::print(
      "| members | over | seconds | joins/s | coordinator's CPU s | members' CPU s | coordinator's "
      "KiB a member |\n|---|---|---|---|---|---|---|\n");
}

void print_row(const JoinsOptions& options, const JoinsFigures& figures) {
  fmt::print("| {} | {} | {:.2f} | {:.0f} | {:.2f} | {:.2f} | {:.0f} |\n", options.members,
             options.plain ? "plain TCP" : "TLS 1.3", figures.took, options.members / figures.took,
             figures.coordinator_cpu, figures.members_cpu, figures.kib_a_member);
  std::fflush(stdout);
}

void print_limit(const JoinsOptions& options, const JoinsFigures& tls, const JoinsFigures& plain) {
  const double more = tls.coordinator_cpu - plain.coordinator_cpu;
  const double all = more + tls.members_cpu - plain.members_cpu;
  fmt::print(
      "\nTLS took the coordinator {:.2f} ms a member, on one thread, and both sides {:.2f} ms: {} "
      "joins take at least {:.1f} s on any machine like this, {:.1f} s where all share 2 cores.\n",
      1e3 * more / options.members, 1e3 * all / options.members, options.members,
      std::max(more, all / 2), all / 2);
}

// Forks before there are threads.
std::optional<JoinsFigures> measure_joins(const JoinsOptions& options,
                                          const net::Credentials& credentials) {
  const double before = cpu_seconds(RUSAGE_CHILDREN);
  std::vector<Ways> ways(static_cast<std::size_t>(options.processes));
  std::vector<pid_t> pids;
  for (Ways& way : ways) {
    if (!way.to_crowd.open() || !way.to_coordinator.open()) return std::nullopt;
    const int first = static_cast<int>(pids.size());
    pids.push_back(::fork());
    if (pids.back() < 0) return std::nullopt;
    if (pids.back() == 0) ::_exit(run_crowd(options, credentials, first, way));
    ::close(way.to_coordinator.ends[1]);  // so that its end is seen
  }
  auto figures = run_coordinator(options, credentials, ways);
  for (const Ways& way : ways) ::close(way.to_crowd.ends[1]);
  for (const pid_t pid : pids) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) figures.reset();
  }
  for (const Ways& way : ways) {
    ::close(way.to_crowd.ends[0]);
    ::close(way.to_coordinator.ends[0]);
  }
  if (figures) figures->members_cpu = cpu_seconds(RUSAGE_CHILDREN) - before;
  return figures;
}

int compare_joins(JoinsOptions options, const std::string& over) {
  const auto credentials = net::create_credentials(system_clock().wall());
  if (!credentials) return 4;
  print_head();
  std::optional<JoinsFigures> rows[2];
  for (const bool plain : {false, true}) {
    if (over == (plain ? "tls" : "plain")) continue;
    options.plain = plain;
    rows[plain ? 1 : 0] = measure_joins(options, *credentials);
    if (!rows[plain ? 1 : 0]) return 1;
    print_row(options, *rows[plain ? 1 : 0]);
  }
  if (rows[0] && rows[1]) print_limit(options, *rows[0], *rows[1]);
  return 0;
}

}  // namespace
}  // namespace muster::cluster

int main(int count, char** words) {
  muster::cluster::JoinsOptions options;
  std::string over = "both";
  CLI::App app("How soon a coordinator has let in members by the thousand.");
  app.add_option("--members", options.members)->check(CLI::Range(1, 100'000));
  app.add_option("--processes", options.processes, "that hold the members")
      ->check(CLI::Range(1, 64));
  app.add_option("--joins-at-once", options.at_once, "in each process")->check(CLI::Range(1, 128));
  app.add_option("--heartbeat-ms", options.heartbeat_ms)->check(CLI::Range(10, 60'000));
  app.add_option("--patience-s", options.patience_s, "after which it has failed")
      ->check(CLI::Range(1, 3600));
  app.add_option("--over", over)->check(CLI::IsMember({"tls", "plain", "both"}));
  CLI11_PARSE(app, count, words);
  if (!muster::cluster::allow_files(options.members + muster::cluster::kOtherFiles)) return 3;
  return muster::cluster::compare_joins(options, over);
}
