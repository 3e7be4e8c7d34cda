#include <fmt/format.h>

#include <csignal>
#include <future>
#include <map>
#include <utility>
#include <vector>

#include "muster/cluster/control_channel.h"
#include "muster/cluster/launchers/agents/agents.h"
#include "muster/cluster/stop_wishes.h"
#include "muster/cluster/store.h"
#include "muster/net/loop.h"

namespace muster::cluster {
namespace {

// A scheduler's signal reaches all ranks: the first then stops the job, and the worker here with
// it.
constexpr Duration kJobStops = std::chrono::seconds(1);
// Without a worker it only ends as the others do, but for a launcher that got no signal.
constexpr Duration kJobEnds = std::chrono::seconds(30);
constexpr int kCannotStart = 127;  // as a shell says

// All on the loop's thread, but for the constructor and over().
class Agent {
 public:
  Agent(const AgentSpec& spec, net::SystemLoop& loop, Processes& processes)
      : spec_(spec),
        loop_(loop),
        processes_(processes),
        signals_(loop.on_signals({SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2},
                                 [this](int number) { on_signal(number); })) {}

  void begin(std::shared_ptr<net::Connection> connection) {
    if (ended_) return;  // by a signal
    connection_ = std::move(connection);
    connection_->start(create_control_receiver(
        {.on_message = [this](const Message& message) { hear(message); },
         .on_bad_message = [this](const Error& why) { end(why); },
         .on_close =
             [this](const Error& why) {
               end(fail(has_heard_ ? ErrorCode::kPeerLost : ErrorCode::kUnavailable,
                        fmt::format("[cluster/agents] the launcher (rank 0 at {}) is gone: {}",
                                    to_string(spec_.launcher), why.message)));
             }}));
    send_message(*connection_, spec_.self);
    beat();
  }

  // Bounded by the connection's life.
  Result<ExitCode> over() { return over_.get_future().get(); }

 private:
  struct Worker {
    std::unique_ptr<Process> process;
    net::Registration output, error, end;
  };

  void hear(const Message& message) {
    has_heard_ = true;
    if (const auto* start_it = std::get_if<StartProcess>(&message)) return start(*start_it);
    if (const auto* over = std::get_if<JobOver>(&message))
      return end(static_cast<ExitCode>(over->exit_code));
    if (const auto* refusal = std::get_if<Failure>(&message)) return end(refusal->error);
    if (const auto* kill = std::get_if<KillProcess>(&message)) {
      const auto found = workers_.find(kill->id);
      if (found != workers_.end()) static_cast<void>(found->second.process->signal(SIGKILL));
    }
  }

  // Whether the way to the launcher is cut shows where something is sent.
  void beat() {
    beat_timer_ = loop_.call_at(loop_.clock().now() + kAgentsBeat, [this] { beat(); });
    send_message(*connection_, Heartbeat{});
  }

  void start(const StartProcess& order) {
    auto process = processes_.spawn({.command = spec_.command,
                                     .environment = {},
                                     .folder = {},
                                     .cores = {},
                                     .held_signals = {},
                                     .input = order.input});
    if (!process) {
      send_message(*connection_,
                   ProcessOutput{order.id, true, to_bytes(process.error().message + "\n")});
      send_message(*connection_,
                   ProcessEnded{order.id, {.exit_status = kCannotStart, .signal = {}}});
      return;
    }
    Worker& worker = workers_[order.id];
    worker.process = std::move(*process);
    const std::uint64_t id = order.id;
    worker.output =
        loop_.watch(worker.process->output_fd(), [this, id] { pass_on(id, /*is_error=*/false); });
    worker.error =
        loop_.watch(worker.process->error_fd(), [this, id] { pass_on(id, /*is_error=*/true); });
    worker.end = loop_.watch(worker.process->end_fd(), [this, id] { note_end(id); });
  }

  // Whether there was something.
  bool pass_on(std::uint64_t id, bool is_error) {
    Worker& worker = workers_.at(id);
    net::Registration& watch = is_error ? worker.error : worker.output;
    if (!watch) return false;
    const auto text =
        net::read_available(is_error ? worker.process->error_fd() : worker.process->output_fd());
    if (!text) {
      const auto keep = std::exchange(watch, nullptr);
      return false;
    }
    if (!text->empty()) send_message(*connection_, ProcessOutput{id, is_error, to_bytes(*text)});
    return !text->empty();
  }

  // What it left running is killed with it, so that nobody writes any more.
  void note_end(std::uint64_t id) {
    const auto end = workers_.at(id).process->poll();
    if (!end) return;
    for (const bool is_error : {false, true})
      while (pass_on(id, is_error)) {
      }
    send_message(*connection_, ProcessEnded{id, *end});
    // Not while one of its watches calls.
    loop_.post([gone = std::make_shared<Worker>(std::move(workers_.at(id)))] {});
    workers_.erase(id);
  }

  void on_signal(int number) {
    if (number == SIGUSR1 || number == SIGUSR2) return;  // the launcher gets it too, and acts on it
    const auto wish = wishes_.hear(number, loop_.clock().now());
    if (wish == StopWishes::Wish::kEcho) return;
    const auto code = static_cast<ExitCode>(128 + number);
    if (wish == StopWishes::Wish::kAtOnce || !connection_) return end(code);
    const Duration wait = workers_.empty() ? kJobEnds : kJobStops;
    leave_timer_ = loop_.call_at(loop_.clock().now() + wait, [this, code] {
      if (workers_.empty()) return end(code);
      for (auto& [id, worker] : workers_) static_cast<void>(worker.process->signal(SIGTERM));
    });
  }

  void end(Result<ExitCode> how) {
    if (std::exchange(ended_, true)) return;
    beat_timer_ = nullptr;
    workers_.clear();  // killed
    if (connection_)
      connection_->close(fail(ErrorCode::kCancelled, "[cluster/agents] this agent is done"));
    over_.set_value(std::move(how));
  }

  const AgentSpec& spec_;
  net::SystemLoop& loop_;
  Processes& processes_;
  std::shared_ptr<net::Connection> connection_;  // null: not yet
  bool has_heard_ = false;
  StopWishes wishes_;
  net::Registration leave_timer_;
  std::map<std::uint64_t, Worker> workers_;  // by id
  net::Registration beat_timer_;
  bool ended_ = false;
  std::promise<Result<ExitCode>> over_;
  net::Registration signals_;  // last: its callback uses the others
};

}  // namespace

Result<ExitCode> attend(const AgentSpec& spec, const net::Credentials& credentials,
                        Deadline deadline, Processes& processes, const Logger& log) {
  const auto loop = net::create_loop("muster-agent", log);
  MUSTER_ASSIGN(const auto network, net::create_network(*loop, credentials, {}, log));
  Agent agent(spec, *loop, processes);
  const net::StopAtEnd stop_first{*loop};
  MUSTER_ASSIGN(auto connection, net::connect_and_wait(*network, spec.launcher, deadline,
                                                       net::Network::Retry::kUntilDeadline));
  // A signal may end the agent before the loop comes to this, and what is local here with it.
  loop->post([&agent, connection = std::move(connection)] { agent.begin(connection); });
  return agent.over();
}

}  // namespace muster::cluster
