#include "muster/app/worker/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "muster/app/debug/worker_dump.h"
#include "muster/app/engines/mpi.h"
#include "muster/app/engines/nccl.h"
#include "muster/app/probe/notice.h"
#include "muster/app/version/version.h"
#include "muster/app/worker/control_sink.h"
#include "muster/base/exception_error.h"
#include "muster/base/host_fault.h"
#include "muster/base/process.h"
#include "muster/base/stacks.h"
#include "muster/cluster/meeting.h"
#include "muster/comm/backend/loopback/loopback.h"
#include "muster/comm/backend/native/native.h"
#include "muster/observe/environment.h"

namespace muster::app {
namespace {

constexpr Duration kGoodbye = std::chrono::seconds(2);
constexpr Duration kMpisEnd = std::chrono::seconds(10);
constexpr Duration kDecision = std::chrono::seconds(10);
// Longer than a transport takes to find that a link is cut, which tells more.
constexpr Duration kConnecting = std::chrono::seconds(15);

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

// What somebody else's end looks like from `here`; anything else is this worker's own fault.
bool comes_from_a_peer(const Error& why, Rank here) {
  return why.code == ErrorCode::kPeerLost || why.code == ErrorCode::kStale ||
         why.code == ErrorCode::kTimeout || why.code == ErrorCode::kCancelled ||
         (why.code == ErrorCode::kUnavailable && why.peer != kNoRank && why.peer != here);
}

}  // namespace

Result<std::unique_ptr<Session>> Session::create(const observe::RunFolder& folder, bool sees_run,
                                                 Logger log) {
  MUSTER_ASSIGN(auto environment, cluster::read_environment(cluster::system_variable));
  // Where no launcher of this host reads them they still go with every heartbeat.
  MUSTER_ASSIGN(auto whereabouts, environment.whereabouts.empty()
                                      ? cluster::Whereabouts::create()
                                      : cluster::Whereabouts::open(environment.whereabouts));
  return std::unique_ptr<Session>(new Session(std::move(environment), std::move(whereabouts),
                                              folder, sees_run, std::move(log)));
}

Session::Session(cluster::WorkerEnvironment environment,
                 std::unique_ptr<cluster::Whereabouts> whereabouts, observe::RunFolder folder,
                 bool sees_run, Logger log)
    : environment_(std::move(environment)),
      whereabouts_(std::move(whereabouts)),
      log_(std::move(log)),
      folder_(std::move(folder)),
      sees_run_(sees_run),
      recorder_(std::make_shared<comm::FlightRecorder>()) {
  recorder_->on_change([this](std::string_view operation) { whereabouts_->waiting_in(operation); });
}

cluster::Progress Session::where_now() const {
  cluster::Progress progress = whereabouts_->read();
  progress.resident = observe::resident_memory(system_files());
  return progress;
}

Session::~Session() {
  preemption_.reset();
  // Callbacks of the loop must not find half of this object gone.
  if (loop_) loop_->stop();
  if (beside_.joinable()) beside_.join();
  recorder_->on_change({});
  recorder_->on_end({});
}

void Session::listen(const job::JobSpec& job, bool to_others) {
  job_ = &job;
  alone_ = to_others;
  loop_ = net::create_loop("muster-io", log_);
  signals_ =
      loop_->on_signals(cluster::worker_signals(), [this](int number) { on_signal(number); });
  release_signals(cluster::worker_signals());
}

Result<bool> Session::join() {
  if (leaving_ && alone_) return false;
  const job::JobSpec& job = *job_;
  MUSTER_ASSIGN(const net::Credentials credentials,
                net::credentials_from_text(environment_.credentials));
  MUSTER_ASSIGN(network_, net::create_network(*loop_, credentials, {}, log_));
  MUSTER_ASSIGN(host_,
                cluster::address_for_others(cluster::system_variable, environment_.coordinator));
  if (job.communication.engine == job::EngineKind::kMpi) {
    MUSTER_ASSIGN(mpi_, begin_mpi(credentials.job(), log_));
  }
  if (job.communication.engine == job::EngineKind::kNccl) {
    MUSTER_ASSIGN(nccl_, load_nccl());
  }
  cluster::MemberOptions member{.coordinator = environment_.coordinator,
                                .info = cluster::describe_this_process(environment_.worker),
                                .host = host_,
                                .where = [this] { return where_now(); },
                                .follows_clock = job.trace.enabled,
                                .version = build_version()};
  member.info.can_lead = sees_run_;
  member.info.has_state = !alone_;
  if (may_stand_by()) alone_ = true;  // another one would have its place
  const Deadline deadline = Deadline::after(system_clock(), job.workers.join_timeout);
  MUSTER_ASSIGN(member_, cluster::ask_to_join(*network_, member, deadline, log_));
  asked_ = member_.get();
  if (leaving_ && alone_) member_->drain();  // it was told to while it asked
  watch_for_preemption();  // a standby's host may be wanted back before it has a rank
  MUSTER_TRY(wait_for_rank(deadline));
  joined_ = alone_ = true;
  begin_trace();
  if (leaving_ && is_elastic()) member_->drain();  // likewise, while the others waited for it
  watch_membership();
  const cluster::Membership membership = member_->membership();
  if (membership.members.empty()) return false;
  const auto me = static_cast<std::size_t>(to_int(membership.rank));
  comes_anew_ = !membership.members[me].info.has_state;
  const Status connected =
      connect(membership, {job.workers.join_timeout, job.workers.join_timeout});
  if (connected) return true;
  if (!outlives(connected.error())) return connected.error();
  // Somebody may have died, or left, while the others waited for this one.
  MUSTER_ASSIGN(const auto entry, next(connected.error(), job.communication.timeout));
  return entry.has_value();
}

// With standbys, those for whom there is no rank yet. They wait as long as the others train: the
// launcher has them go in the end, and where it is gone the member is lost.
bool Session::may_stand_by() const noexcept {
  return job_->strategy.keeps_ranks() && job_->workers.standbys > 0;
}

Status Session::wait_for_rank(Deadline deadline) {
  for (;;) {
    const auto membership = member_->wait_newer(Generation{0}, deadline);
    if (membership) return ok();
    if (!may_stand_by() || !deadline.passed(system_clock())) return membership.error();
    deadline = Deadline::after(system_clock(), job_->workers.join_timeout);
  }
}

void Session::end(const Status& outcome) {
  if (!joined_ || quarantined_) return;
  const Deadline deadline = Deadline::after(system_clock(), kGoodbye);
  if (tracer_) tracer_->finish();
  log_->info("ends: {}", outcome ? "in good order" : outcome.error().message);
  if (outcome) {
    member_->leave(stopped_by_, deadline);
    end_mpi();
  } else {
    dump(false);
    member_->fail(tried_, outcome.error(), concerns_of(outcome.error()), deadline);
  }
}

// Of a job that fails somebody may be gone, for whom MPI would wait for ever: its launcher ends it.
void Session::end_mpi() {
  if (!mpi_) return;
  const Status ended = mpi_->finish(Deadline::after(system_clock(), kMpisEnd));
  if (!ended) log_->warn("{}", ended.error().message);
}

// The run's folder is everybody's, wherever it lies.
cluster::Concerns Session::concerns_of(const Error& error) const {
  const bool is_shared = error.message.find(folder_.root().string()) != std::string::npos;
  return may_be_of_one_host(error) && !is_shared ? cluster::Concerns::kItsHost
                                                 : cluster::Concerns::kAll;
}

void Session::quarantine(const Error& why) {
  log_->error("{}", why.message);
  quarantined_ = true;
  member_->quarantine(why, Deadline::after(system_clock(), kGoodbye));
}

void Session::on_signal(int number) {
  if (number == SIGUSR2) return beside_the_loop([this] { write_stacks(); });
  // SIGTERM means this worker, and the others can go on; the rest means the job.
  if (number == SIGTERM) return leave_early("SIGTERM");
  log_->info("signal {}: stopping with the step", number);
  stop_for(number);
}

// Where the others cannot go on without this worker all stop with the step. Those who wait for it
// to begin go on without it once they have begun.
void Session::leave_early(const std::string& why) {
  if (leaving_.exchange(true)) return;
  log_->info("{}: leaving with the step", why);
  if (!is_elastic())
    stop_for(SIGTERM);
  else if (cluster::Member* member = alone_ ? asked_.load() : nullptr)
    member->drain();
}

// The first signal counts: the launcher ends with its number.
void Session::stop_for(int signal) {
  int none = 0;
  stopped_by_.compare_exchange_strong(none, signal);
}

// Of its launcher's own host that asks itself: with it the whole job goes.
void Session::watch_for_preemption() {
  if (environment_.host_is_watched) return;
  const job::PreemptionSpec& spec = job_->preemption;
  preemption_ = watch_for_notice(
      {.file = spec.file, .command = spec.command, .url = spec.url}, spec.every,
      [this](const std::string& from) {
        if (leaving_) return;
        log_->warn("pre-emption notice ({}): leaving with the step", from);
        leave_early("pre-emption notice");
      },
      system_processes(), system_files(), log_);
}

// Stacks deep in libtorch take a second to name, in which the loop's thread lets the heart stand
// still, and the others would go on without this worker. One task at a time; a second one is
// dropped.
void Session::beside_the_loop(std::function<void()> task) {
  if (busy_.exchange(true)) return;
  if (beside_.joinable()) beside_.join();  // it has ended
  const auto run = [this, task = std::move(task)] {
    tell_failure([&] { task(); });
    busy_ = false;
  };
  if (!tell_failure([&] { beside_ = std::thread(run); })) busy_ = false;
}

// The training goes on without what is only looked at. False: it failed.
bool Session::tell_failure(const std::function<void()>& task) const {
  const Status done = without_exceptions("worker/stacks", [&] {
    task();
    return ok();
  });
  if (!done) log_->warn("{}", done.error().message);
  return done.has_value();
}

void Session::write_stacks() const {
  log_->info("stacks:\n{}operations in flight and before:\n{}", describe_stacks(),
             recorder_->report(system_clock()));
}

void Session::dump(bool stacks) const {
  const std::string threads = stacks ? describe_stacks() : "";
  cluster::Member* const member = asked_;
  if (member == nullptr) return;
  const cluster::Membership membership = member->membership();
  // Stacks take their time: a clock read before them would put newer operations into the future.
  const auto entries = recorder_->entries();
  const auto passes = recorder_->passes();
  const TimePoint now = system_clock().now();
  const std::string text =
      encode({.record = flight_record(membership.rank, membership.size(), entries, passes, now),
              .stacks = threads});
  const auto bytes = std::as_bytes(std::span(text));
  member->answer_dump({bytes.begin(), bytes.end()});
}

void Session::abort(const Error& why) {
  std::unique_lock lock(mutex_);
  const auto communicator = under_way_.lock();
  lock.unlock();
  if (communicator) communicator->abort(why);
}

void Session::watch_membership() {
  member_->on_lost([this](const Error& why) { abort(why); });
  member_->on_let_go([this] { leave_early("fewer workers are wanted"); });
  member_->on_generation([this](const cluster::Membership& membership) {
    if (membership.planned) return;
    abort(fail(ErrorCode::kStale, fmt::format("[worker/membership] generation {} has begun",
                                              to_int(membership.generation))));
  });
  member_->on_dump([this](bool stacks) {
    if (!stacks) return dump(false);
    beside_the_loop([this] { dump(true); });
  });
}

Result<std::shared_ptr<comm::Communicator>> Session::create_engine(const comm::Group& group,
                                                                   const Limits& limits) {
  if (job_->communication.engine ==
      job::EngineKind::kLoopback) {  // of one worker: the job file says so
    return comm::create_loopback(group.size, group.generation).front();
  }
  const bool by_mpi = mpi_ != nullptr;
  const auto by_nccl = nccl_ == nullptr
                           ? comm::EngineOver()
                           : comm::nccl_over_transport({.nccl = nccl_, .host = host_, .log = log_});
  const auto store = member_->store(group.generation);
  const auto has_ended = [this, generation = group.generation] {
    return member_->generation() != generation;
  };
  return comm::create_native({.group = group,
                              .exchange = comm::exchange_through(
                                  *store, group, fmt::format("comm/{}", to_int(group.generation))),
                              .network = by_mpi ? mpi_.get() : network_.get(),
                              .transport = by_mpi ? comm::NativeTransport::kTcp
                                                  : transport_of(job_->communication.transport),
                              .connect_timeout = limits.connecting,
                              .arrival_timeout = limits.arrival,
                              .cancelled = has_ended,
                              .listen_host = host_,
                              .book = &costs_,
                              .over = by_nccl,
                              .log = log_});
}

Status Session::connect(const cluster::Membership& membership, const Limits& limits) {
  tried_ = membership.generation;
  tried_rank_ = membership.rank;
  const comm::Group group{membership.rank, membership.size(), membership.generation};
  MUSTER_ASSIGN(auto engine, create_engine(group, limits));
  current_.communicator = comm::with_trace(std::move(engine), recorder_);
  if (tracer_) tracer_->enter(group.generation, group.rank);
  current_.workers.clear();
  current_.places.clear();
  for (const cluster::MemberInfo& member : membership.members) {
    current_.workers.push_back(member.info.worker);
    current_.places.push_back(fmt::format("pid {} on {}", member.info.pid, member.info.host));
  }
  {
    const std::lock_guard lock(mutex_);
    under_way_ = current_.communicator;
  }
  // One that began in the meantime found nothing to abort, and a planned one aborts nothing:
  // whoever came here before it heard of it would wait for this worker until its time is up.
  if (member_->generation() != tried_) {
    Error over = fail(ErrorCode::kStale,
                      fmt::format("[worker/membership] generation {} has ended", to_int(tried_)));
    abort(over);
    return over;
  }
  const auto& me = membership.members[static_cast<std::size_t>(to_int(group.rank))].info;
  log_->info("rank {} of {} in generation {}: pid {} on {}, lanes {}", to_int(group.rank),
             group.size, to_int(group.generation), me.pid, me.host, environment_.lanes);
  if (first_rank() && !subscription_) subscription_ = hub_.subscribe(create_control_sink(*member_));
  return ok();
}

bool Session::is_elastic() const noexcept { return job_->workers.elastic(); }

bool Session::changing() const { return member_->generation() != tried_; }

bool Session::loses_somebody() const {
  const cluster::Membership newest = member_->membership();
  const auto goes_on = [&](std::int32_t worker) {
    return std::ranges::any_of(newest.members, [worker](const cluster::MemberInfo& member) {
      return member.info.worker == worker;
    });
  };
  return newest.generation != tried_ && !std::ranges::all_of(current_.workers, goes_on);
}

bool Session::outlives(const Error& why) const {
  return is_elastic() && comes_from_a_peer(why, tried_rank_);
}

Result<std::optional<train::Entry>> Session::next(const std::optional<Error>& why,
                                                  Duration patience) {
  if (why) {
    log_->info("generation {} fails: {}", to_int(tried_), why->message);
    abort(*why);  // whoever waits for this rank learns of it
    suspect(*why);
  }
  // Who is silent is noticed after the heartbeat's time-out; the rest takes milliseconds, but where
  // too few are left new ones have to come, and the launcher says when it gives up.
  const job::WorkersSpec& workers = job_->workers;
  const Duration decision = workers.heartbeat_timeout + workers.join_timeout + kDecision;
  for (std::optional<Error> last = why;;) {
    auto membership = member_->wait_newer(tried_, Deadline::after(system_clock(), decision));
    if (!membership) {
      const bool nothing_new = membership.error().code == ErrorCode::kTimeout;
      return nothing_new && last ? *last : std::move(membership).error();
    }
    if (membership->members.empty()) return std::optional<train::Entry>();
    // All of its members live and know of it; whoever does not come in the time of a step hangs.
    Status connected = connect(*membership, {patience, std::max(kConnecting, patience)});
    if (connected) return std::optional(current_);
    last = std::move(connected).error();
    if (!outlives(*last)) return *last;
    suspect(*last);
  }
}

// What failed because the generation is over says nothing of anybody.
void Session::suspect(const Error& why) {
  if (why.code != ErrorCode::kStale) member_->suspect(tried_, why);
}

}  // namespace muster::app
