// A worker for tests: joins the job, and then one rank does what the command line says while the
// others behave as survivors do.   procs_worker ACT [RANK], -1: all
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "muster/base/process.h"
#include "muster/cluster/environment.h"
#include "muster/cluster/member.h"
#include "muster/cluster/whereabouts.h"
#include "muster/net/network.h"
#include "muster/testing/soon.h"

namespace {

using namespace muster;
using muster::testing::kHang;
using muster::testing::soon;
using std::chrono::seconds;

Deadline after(Duration duration) { return Deadline::after(system_clock(), duration); }

struct Worker {
  std::string act;
  Rank actor;  // as numbered by the launcher: ranks move up when one is lost
  bool acts;
  cluster::Member& member;
  cluster::Whereabouts& where;
  std::promise<void> over;
  std::once_flag ended;

  void end() {
    std::call_once(ended, [this] { over.set_value(); });
  }
};

[[noreturn]] void give_up(Worker& worker, const Error& why) {
  worker.member.fail(why, cluster::Concerns::kAll, soon());
  std::cerr << "gave up: " << why.message << std::endl;
  std::_Exit(1);
}

int wait_for_the_end(Worker& worker) {
  worker.member.on_stop([&](cluster::StopReason) { worker.end(); });
  worker.member.on_lost([](const Error&) { std::_Exit(1); });
  worker.member.on_let_go([&] { worker.member.drain(); });
  worker.member.on_generation([&](const cluster::Membership& now) {
    if (now.members.empty()) worker.end();
  });
  if (worker.over.get_future().wait_for(kHang) != std::future_status::ready) return 9;
  std::cout << "stopped as asked" << std::endl;
  worker.member.leave(0, soon());
  return 0;
}

int leave(Worker& worker) {
  worker.member.leave(0, soon());
  return 0;
}

// As in an exit handler, or on a file system that does not answer.
int leave_and_hang(Worker& worker) {
  worker.member.leave(0, soon());
  std::this_thread::sleep_for(kHang);
  return 9;
}

// The others blame the actor, whose process is not there any more but for what the launcher has yet
// to see of it.
int die_and_be_blamed(Worker& worker) {
  if (worker.acts) std::raise(SIGKILL);
  const auto members = worker.member.membership().members;
  const int pid = members[static_cast<std::size_t>(to_int(worker.actor))].info.pid;
  for (const Deadline limit = soon(); !is_ending(pid) && !limit.passed(system_clock());)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  give_up(worker, fail(ErrorCode::kPeerLost, "[comm/all_reduce] lost the peer", worker.actor));
}

int print(Worker& worker) {
  for (int i = 0; i < 30; ++i) std::cout << "line " << i << '\n';
  std::cout << std::flush;
  std::cerr << "no newline at the end" << std::flush;
  worker.member.report(cluster::to_bytes("a report"));
  return leave(worker);
}

// More than is read at once, and less than a connection holds that nobody reads. It goes though its
// launcher does not run.
int report_much(Worker& worker) {
  std::cout << "begins" << std::endl;
  for (int i = 0; i < 100; ++i)
    worker.member.report(cluster::to_bytes(std::string(20'000, 'a') + std::to_string(i)));
  worker.member.leave(0, after(seconds(5)));
  return 0;
}

int numeric(Worker& worker) {
  worker.member.fail(fail(ErrorCode::kNumeric, "[train/step] the loss is NaN at step 17"),
                     cluster::Concerns::kAll, soon());
  return 4;
}

int use_the_store(Worker& worker) {
  const auto own = worker.member.store(worker.member.membership().generation);
  auto& store = *own;
  const auto size = worker.member.membership().size();
  const auto rank = to_int(worker.member.membership().rank);
  const auto mine = "key/" + std::to_string(rank);
  if (!store.set(mine, cluster::to_bytes(mine), soon())) return 10;
  for (int other = 0; other < size; ++other) {
    const auto key = "key/" + std::to_string(other);
    const auto value = store.get(key, soon());
    if (!value || cluster::to_string(*value) != key) return 11;
  }
  if (!store.add("count", rank + 1, soon())) return 12;
  const auto me = cluster::to_bytes(mine);
  const auto winner = store.compare_exchange("winner", {}, me, soon());
  const auto seen = store.get("winner", soon());
  if (!winner || !seen || *winner != *seen) return 13;
  const auto nothing = store.get("never", after(std::chrono::milliseconds(50)));
  if (nothing || nothing.error().code != ErrorCode::kTimeout) return 14;
  return leave(worker);
}

// The last rank of each generation ends without a word, as long as there is another one.
int exit_in_turn(Worker& worker, bool at_one_step) {
  for (;;) {
    const auto now = worker.member.membership();
    if (now.size() == 1) return wait_for_the_end(worker);
    const auto generation = static_cast<std::int64_t>(to_int(now.generation));
    if (!at_one_step) worker.where.doing(Step{17 + generation}, "update");
    if (to_int(now.rank) == now.size() - 1) std::_Exit(3);
    if (!worker.member.wait_newer(now.generation, soon())) return 9;
  }
}

// A fault of its host alone, once.
int lack_memory(Worker& worker) {
  if (worker.member.membership().generation > Generation{1}) return wait_for_the_end(worker);
  worker.member.fail(fail(ErrorCode::kUnavailable, "[worker/train] not enough memory"),
                     cluster::Concerns::kItsHost, soon());
  return 3;
}

// Once the test has put the mark there.
int go_as_standby(Worker& worker) {
  worker.member.on_generation([&](const cluster::Membership& now) {
    if (now.members.empty()) worker.end();
  });
  while (::access(std::getenv("PROCS_WORKER_MARK"), F_OK) != 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  worker.member.drain();
  if (worker.over.get_future().wait_for(kHang) != std::future_status::ready) return 9;
  return leave(worker);
}

// The others say that they have heard of its end, and stay.
int end_before_others(Worker& worker) {
  if (worker.acts) std::_Exit(3);
  worker.member.on_lost([](const Error&) { std::cout << "heard of it" << std::endl; });
  std::this_thread::sleep_for(kHang);
  return 9;
}

int hold_wrong_bits(Worker& worker) {
  worker.member.quarantine(fail(ErrorCode::kCorrupt, "[train/replicas] other weights"), soon());
  return 0;
}

int run(Worker& worker) {
  using Act = std::function<int(Worker&)>;
  static const std::map<std::string, Act> acts{
      {"wait", wait_for_the_end},
      {"crash_once_before_join", wait_for_the_end},
      {"leave", leave},
      {"leave_and_hang", leave_and_hang},
      {"print", print},
      {"report_much", report_much},
      {"store", use_the_store},
      {"sigkill", [](Worker&) { return std::raise(SIGKILL); }},
      {"segv",
       [](Worker&) {
         std::signal(SIGSEGV, SIG_DFL);  // a sanitizer's own handler would exit with 1
         return std::raise(SIGSEGV);
       }},
      {"freeze", [](Worker&) { return std::raise(SIGSTOP); }},
      {"exit3", [](Worker&) -> int { std::_Exit(3); }},
      {"exit0", [](Worker&) -> int { std::_Exit(0); }},
      {"throw", [](Worker&) -> int { throw std::runtime_error("out of cheese"); }},
      {"numeric", numeric},
      {"lack_memory", lack_memory},
      {"wrong_bits", hold_wrong_bits},
      {"end_before_others", end_before_others},
      {"go_as_standby", go_as_standby},
      {"exit_at_one_step", [](Worker& w) { return exit_in_turn(w, true); }},
      {"exit_at_other_steps", [](Worker& w) { return exit_in_turn(w, false); }},
      {"never_begin",  // as with data that do not come
       [](Worker&) {
         std::this_thread::sleep_for(kHang);
         return 9;
       }},
      {"stubborn",
       [](Worker& w) {
         std::cout << "ready" << std::endl;
         std::this_thread::sleep_for(kHang);
         return static_cast<int>(w.acts);
       }},
  };
  if (worker.act == "die_and_be_blamed") return die_and_be_blamed(worker);
  constexpr std::string_view kOfAll[] = {
      "print",      "leave_and_hang",   "report_much",         "store",
      "stubborn",   "exit_at_one_step", "exit_at_other_steps", "end_before_others",
      "never_begin"};
  if (worker.acts || std::ranges::count(kOfAll, worker.act) > 0) return acts.at(worker.act)(worker);
  return wait_for_the_end(worker);
}

// Of all processes of the job.
bool is_first_time() {
  const int mark = ::open(std::getenv("PROCS_WORKER_MARK"), O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (mark >= 0) ::close(mark);
  return mark >= 0;
}

int before_joining(const std::string& act) {
  if (act == "crash_before_join") std::raise(SIGABRT);
  if (act == "exit_before_join") std::exit(2);
  if (act == "exit3_before_join") std::exit(3);
  if (act == "never_join") std::this_thread::sleep_for(kHang);
  if (act == "stay_out") {
    std::cout << "not here yet" << std::endl;
    std::this_thread::sleep_for(kHang);
  }
  if (act == "killed_before_join") std::raise(SIGKILL);
  if (act == "crash_once_before_join" && is_first_time()) std::raise(SIGABRT);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string act = argc > 1 ? argv[1] : "leave";
  const Rank actor{argc > 2 ? std::atoi(argv[2]) : 0};
  const auto environment = cluster::read_environment(cluster::system_variable);
  if (!environment) {
    std::cerr << environment.error().message << std::endl;
    return 3;
  }
  const bool acts = actor == kNoRank || Rank{environment->worker} == actor;
  if (acts) before_joining(act);
  const auto log = create_stderr_logger();
  const auto loop = net::create_loop("worker", log);
  const auto credentials = net::credentials_from_text(environment->credentials).value();
  const auto network = net::create_network(*loop, credentials, {}, log).value();
  const auto where = cluster::Whereabouts::open(environment->whereabouts).value();
  if (act != "never_begin") {
    where->doing(Step{17}, "update");
    where->waiting_in("clip gradients");
  }
  cluster::MemberOptions options{.coordinator = environment->coordinator,
                                 .info = cluster::describe_this_process(environment->worker),
                                 .where = [&] { return where->read(); }};
  const bool waits_for_a_rank = acts && act == "go_as_standby";
  auto member = waits_for_a_rank ? cluster::ask_to_join(*network, std::move(options), soon(), log)
                                 : cluster::join(*network, std::move(options), soon(), log);
  if (!member) {
    std::cerr << member.error().message << std::endl;
    return 1;
  }
  Worker worker{act, actor, acts, **member, *where, {}, {}};
  const int status = run(worker);
  loop->stop();
  return status;
}
