#include "muster/app/worker/session.h"

#include <csignal>
#include <utility>

#include "muster/app/worker/control_sink.h"
#include "muster/base/stacks.h"
#include "muster/comm/backend/loopback/loopback.h"
#include "muster/comm/backend/native/native.h"

namespace muster::app {
namespace {

constexpr Duration kGoodbye = std::chrono::seconds(2);

comm::NativeTransport transport_of(job::TransportKind transport) {
  switch (transport) {
    case job::TransportKind::kShm:
      return comm::NativeTransport::kSharedMemory;
    case job::TransportKind::kTcp:
      return comm::NativeTransport::kTcp;
    case job::TransportKind::kAuto:
      break;
  }
  return comm::NativeTransport::kAuto;
}

}  // namespace

Result<std::unique_ptr<Session>> Session::create(Logger log) {
  MUSTER_ASSIGN(auto environment, cluster::read_environment(cluster::system_variable));
  return std::unique_ptr<Session>(new Session(std::move(environment), std::move(log)));
}

Session::Session(cluster::WorkerEnvironment environment, Logger log)
    : environment_(std::move(environment)),
      log_(std::move(log)),
      recorder_(std::make_shared<comm::FlightRecorder>()) {}

Session::~Session() {
  // Callbacks of the loop must not find half of this object gone.
  if (loop_) loop_->stop();
}

Status Session::join(const job::JobSpec& job, const observe::RunFolder& folder) {
  folder_ = folder;
  MUSTER_ASSIGN(const net::Credentials credentials,
                net::credentials_from_text(environment_.credentials));
  loop_ = net::create_loop("muster-io", log_);
  watch_signals();
  const net::NetworkOptions options{.insecure_plaintext = !job.communication.encrypt};
  MUSTER_ASSIGN(network_, net::create_network(*loop_, credentials, options, log_));
  const cluster::MemberOptions member{.coordinator = environment_.coordinator,
                                      .info = cluster::describe_this_process(environment_.worker)};
  const Deadline deadline = Deadline::after(system_clock(), job.workers.join_timeout);
  MUSTER_ASSIGN(member_, cluster::join(*network_, member, deadline, log_));
  return connect(job);
}

void Session::end(const Status& outcome) {
  if (!member_) return;
  const Deadline deadline = Deadline::after(system_clock(), kGoodbye);
  log_->info("ends: {}", outcome ? "in good order" : outcome.error().message);
  if (outcome) {
    member_->leave(deadline);
  } else {
    member_->fail(outcome.error(), deadline);
  }
}

void Session::watch_signals() {
  signals_ = loop_->on_signals({SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}, [this](int number) {
    if (number == SIGUSR2) return dump();
    log_->info("signal {}: stopping with the step", number);
    signalled_ = true;
  });
}

void Session::dump() const {
  log_->warn("stacks:\n{}operations in flight and before:\n{}", describe_stacks(),
             recorder_->report(system_clock().now()));
}

Result<std::shared_ptr<comm::Communicator>> Session::create_engine(const job::JobSpec& job,
                                                                   const comm::Group& group) {
  if (job.communication.engine ==
      job::EngineKind::kLoopback) {  // of one worker: the job file says so
    return comm::create_loopback(group.size, group.generation).front();
  }
  return comm::create_native({.group = group,
                              .exchange = comm::exchange_through(member_->store(), group, "comm"),
                              .network = network_.get(),
                              .transport = transport_of(job.communication.transport),
                              .connect_timeout = job.workers.join_timeout,
                              .log = log_});
}

Status Session::connect(const job::JobSpec& job) {
  const cluster::Membership& membership = member_->membership();
  const comm::Group group{membership.rank, membership.size(), membership.generation};
  MUSTER_ASSIGN(auto engine, create_engine(job, group));
  communicator_ = comm::with_trace(std::move(engine), recorder_);
  const std::weak_ptr<comm::Communicator> communicator = communicator_;
  member_->on_lost([communicator](const Error& why) {
    if (const auto alive = communicator.lock()) alive->abort(why);
  });
  member_->on_dump([this] { dump(); });
  const auto& me = membership.members[static_cast<std::size_t>(to_int(group.rank))].info;
  log_->info("rank {} of {} in generation {}: pid {} on {}, lanes {}", to_int(group.rank),
             group.size, to_int(group.generation), me.pid, me.host, environment_.lanes);
  if (first_rank()) subscription_ = hub_.subscribe(create_control_sink(*member_));
  return ok();
}

}  // namespace muster::app
