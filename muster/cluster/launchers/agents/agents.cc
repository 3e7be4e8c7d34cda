#include "muster/cluster/launchers/agents/agents.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <condition_variable>
#include <csignal>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "muster/cluster/control_channel.h"
#include "muster/cluster/launchers/agents/same_job.h"
#include "muster/cluster/launchers/agents/stand_in.h"
#include "muster/cluster/port_owner.h"

namespace muster::cluster {
namespace {

constexpr Duration kGoodbye = std::chrono::seconds(2);  // for a last message
constexpr int kOfTheAgent = 255;                        // as of a remote shell
// From a kill until nobody waits for word of it: the way there may be cut.
constexpr Duration kEndsSoon = std::chrono::seconds(2);

class AgentsHere final : public Agents {
 public:
  AgentsHere(net::Address meeting, std::int32_t count, Attend self, Logger log)
      : meeting_(std::move(meeting)),
        count_(count),
        self_(std::move(self)),
        log_(std::move(log)),
        loop_(net::create_loop("muster-agents", log_)) {}

  ~AgentsHere() override {
    listener_.reset();
    loop_->stop();  // nothing may call what is being destroyed
  }

  Status open(const net::Credentials& credentials, const net::Address& listen) {
    MUSTER_ASSIGN(network_, net::create_network(*loop_, credentials, {}, log_));
    MUSTER_ASSIGN(listener_,
                  network_->listen(listen, [this](const auto& connection) { accept(connection); }));
    loop_->post([this] { beat(); });
    return ok();
  }

  const net::Address& address() const noexcept override { return listener_->address(); }

  Result<std::vector<Attend>> wait_for_all(Deadline deadline) override {
    std::unique_lock lock(mutex_);
    wait(lock, deadline, [this] { return failure_ || std::ssize(known_) == count_; });
    if (failure_) return *failure_;
    if (std::ssize(known_) < count_)
      return fail(ErrorCode::kTimeout,
                  fmt::format("rank {} of {} did not come", missing(), count_ + 1));
    std::vector<Attend> all;
    all.reserve(known_.size());
    for (const auto& [number, agent] : known_) all.push_back(agent);
    return all;
  }

  void give_up(Error why) override {
    const std::lock_guard lock(mutex_);
    note_failure(std::move(why));
  }

  Result<std::unique_ptr<Process>> start(std::int32_t number, std::string input) override {
    const std::lock_guard lock(mutex_);
    const std::uint64_t id = ++last_;
    MUSTER_ASSIGN(StandIn::Made made, StandIn::create(*loop_, [this, id] { kill(id); }));
    running_[id] = {.number = number, .stand_in = std::move(made.stand_in)};
    if (const auto connection = connection_to(number)) {
      send_message(*connection, StartProcess{id, std::move(input)});
    } else {
      loop_->post([this, number] {
        const std::lock_guard locked(mutex_);
        end_all_of(number);
      });
    }
    return std::move(made.process);
  }

  bool is_there(std::int32_t number) override {
    const std::lock_guard lock(mutex_);
    return present_.contains(number);
  }

  void conclude(ExitCode code, Deadline deadline) override {
    std::unique_lock lock(mutex_);
    over_ = code;
    for (const auto& [number, visitor] : present_) tell_over(*visitors_.at(visitor));
    wait(lock, deadline, [this] { return std::ssize(gone_) == count_; });
  }

 private:
  struct Running {
    std::int32_t number = 0;
    std::shared_ptr<StandIn> stand_in;
    net::Registration kill_timer = {};  // until which it has to end
  };

  template <class Condition>
  void wait(std::unique_lock<std::mutex>& lock, Deadline deadline, const Condition& condition) {
    while (!condition() && !deadline.passed(loop_->clock()))
      loop_->clock().wait_until(lock, changed_, deadline.at());
  }

  // ---- on the loop's thread, as all that follows but for what start() uses

  void accept(const std::shared_ptr<net::Connection>& connection) {
    const std::uint64_t visitor = note_visitor(connection);
    connection->start(create_control_receiver(
        {.on_message = [this, visitor](const Message& message) { hear(visitor, message); },
         .on_bad_message =
             [this, visitor](const Error& why) {
               const std::lock_guard locked(mutex_);
               if (const auto found = visitors_.find(visitor); found != visitors_.end())
                 found->second->close(why);
             },
         .on_close = [this, visitor](const Error& why) { lose(visitor, why); }}));
  }

  std::uint64_t note_visitor(const std::shared_ptr<net::Connection>& connection) {
    const std::lock_guard lock(mutex_);
    visitors_[++last_] = connection;
    return last_;
  }

  void hear(std::uint64_t visitor, const Message& message) {
    const std::lock_guard lock(mutex_);
    if (const auto* agent = std::get_if<Attend>(&message)) return admit(visitor, *agent);
    if (const auto* output = std::get_if<ProcessOutput>(&message)) {
      if (const auto* of = process_of(visitor, output->id))
        of->stand_in->take_output(output->is_error, output->text);
      return;
    }
    if (const auto* ended = std::get_if<ProcessEnded>(&message)) {
      const auto* of = process_of(visitor, ended->id);
      if (of == nullptr) return;
      of->stand_in->take_end(ended->end);
      running_.erase(ended->id);
      return;
    }
    if (std::holds_alternative<Heartbeat>(message)) return;
    refuse(visitor, fail(ErrorCode::kInvalid,
                         fmt::format("[cluster/agents] an agent sent \"{}\"", name(message))));
  }

  void admit(std::uint64_t visitor, const Attend& agent) {
    if (agent.number < 1 || agent.number > count_)
      return refuse(visitor, fail(ErrorCode::kInvalid,
                                  fmt::format("[cluster/agents] there are ranks 0 to {}, and no {}",
                                              count_, agent.number)));
    if (over_ && known_.contains(agent.number))
      return refuse(visitor, fail(ErrorCode::kUnavailable,
                                  "[cluster/agents] this rank has been in a job that is over"));
    if (over_) {
      present_[agent.number] = visitor;
      return tell_over(*visitors_.at(visitor));
    }
    // Whoever has no place here does no harm by what it is or was given.
    if (known_.contains(agent.number))
      return refuse(visitor, fail(ErrorCode::kInvalid, "[cluster/agents] " + why_no_place(agent)));
    if (const std::string what = what_differs(self_, agent); !what.empty()) {
      const Error why = fail(ErrorCode::kInvalid, "[cluster/agents] " + what);
      gone_.insert(agent.number);
      note_failure(why);
      return refuse(visitor, why);
    }
    known_[agent.number] = agent;
    present_[agent.number] = visitor;
    changed_.notify_all();
  }

  // Of a rank that has come already.
  std::string why_no_place(const Attend& agent) const {
    const Attend& known = known_.at(agent.number);
    if (!present_.contains(agent.number))
      return "the job has lost this rank, and goes on without it: " + who(known);
    return fmt::format(
        "two processes say that they are the same rank, the second on {} (pid {}); {}", agent.host,
        agent.pid, seat_is_taken(meeting_, known.number, known.host, known.pid));
  }

  void refuse(std::uint64_t visitor, Error why) {
    net::Connection& connection = *visitors_.at(visitor);
    send_message(connection, Failure{std::move(why), {}});
    connection.finish(Deadline::after(loop_->clock(), kGoodbye));
  }

  void tell_over(net::Connection& connection) const {
    send_message(connection, JobOver{static_cast<std::int32_t>(*over_)});
  }

  void lose(std::uint64_t visitor, const Error& why) {
    const std::lock_guard lock(mutex_);
    visitors_.erase(visitor);
    const auto found =
        std::ranges::find(present_, visitor, [](auto& entry) { return entry.second; });
    if (found == present_.end()) return;
    const std::int32_t number = found->first;
    present_.erase(found);
    gone_.insert(number);
    if (std::ssize(known_) < count_ && known_.contains(number))
      note_failure(fail(ErrorCode::kPeerLost, fmt::format("rank {} came and is gone again: {}",
                                                          who(known_.at(number)), why.message)));
    end_all_of(number);
    changed_.notify_all();
  }

  // Its agent is gone.
  void end_all_of(std::int32_t number) {
    std::erase_if(running_, [number](const auto& entry) {
      const Running& process = entry.second;
      if (process.number == number)
        process.stand_in->take_end({.exit_status = kOfTheAgent, .signal = {}});
      return process.number == number;
    });
  }

  void note_failure(Error why) {
    if (!failure_) failure_ = std::move(why);
    changed_.notify_all();
  }

  // Null: it has ended, or is another agent's.
  const Running* process_of(std::uint64_t visitor, std::uint64_t id) const {
    const auto found = running_.find(id);
    if (found == running_.end()) return nullptr;
    const auto agent = present_.find(found->second.number);
    return agent != present_.end() && agent->second == visitor ? &found->second : nullptr;
  }

  std::shared_ptr<net::Connection> connection_to(std::int32_t number) const {
    const auto found = present_.find(number);
    return found == present_.end() ? nullptr : visitors_.at(found->second);
  }

  // On any thread.
  void kill(std::uint64_t id) {
    const std::lock_guard lock(mutex_);
    const auto found = running_.find(id);
    if (found == running_.end()) return;
    if (const auto connection = connection_to(found->second.number))
      send_message(*connection, KillProcess{id});
    found->second.kill_timer = loop_->call_at(loop_->clock().now() + kEndsSoon, [this, id] {
      const std::lock_guard locked(mutex_);
      if (const auto running = running_.find(id); running != running_.end())
        running->second.stand_in->take_end({.exit_status = {}, .signal = SIGKILL});
    });
  }

  // Whether the way to an agent is cut shows where something is sent.
  void beat() {
    beat_timer_ = loop_->call_at(loop_->clock().now() + kAgentsBeat, [this] { beat(); });
    const std::lock_guard lock(mutex_);
    for (const auto& [number, visitor] : present_)
      send_message(*visitors_.at(visitor), Heartbeat{});
  }

  std::string missing() const {
    std::vector<std::int32_t> numbers;
    for (std::int32_t number = 1; number <= count_; ++number)
      if (!known_.contains(number)) numbers.push_back(number);
    return fmt::format("{}", fmt::join(numbers, ", "));
  }

  const net::Address meeting_;
  const std::int32_t count_;
  const Attend self_;
  const Logger log_;
  std::unique_ptr<net::SystemLoop> loop_;
  std::unique_ptr<net::Network> network_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::uint64_t last_ = 0;  // number of a visitor or a process
  std::map<std::uint64_t, std::shared_ptr<net::Connection>> visitors_;
  std::map<std::int32_t, Attend> known_;           // all that have come, by number
  std::map<std::int32_t, std::uint64_t> present_;  // visitors, by number
  std::set<std::int32_t> gone_;
  std::map<std::uint64_t, Running> running_;
  std::optional<Error> failure_;
  std::optional<ExitCode> over_;
  std::unique_ptr<net::Listener> listener_;
  net::Registration beat_timer_;
};

}  // namespace

Result<std::unique_ptr<Agents>> create_agents(const net::Credentials& credentials,
                                              const net::Address& listen,
                                              const net::Address& meeting, std::int32_t count,
                                              Attend self, Logger log) {
  auto agents = std::make_unique<AgentsHere>(meeting, count, std::move(self), std::move(log));
  MUSTER_TRY(agents->open(credentials, listen));
  return agents;
}

}  // namespace muster::cluster
