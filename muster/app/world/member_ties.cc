#include "muster/app/world/member_ties.h"

#include <fmt/format.h>

#include <atomic>
#include <exception>
#include <mutex>

#include "muster/app/engines/mpi.h"
#include "muster/app/version/version.h"
#include "muster/cluster/environment.h"
#include "muster/cluster/meeting.h"
#include "muster/cluster/member.h"
#include "muster/comm/backend/native/native.h"
#include "muster/net/network.h"

namespace muster::app {
namespace {

constexpr Duration kGoodbye = std::chrono::seconds(2);
// Whoever hosts the world gives up at the same time as its members, and knows who did not come.
constexpr Duration kToldWhoIsMissing = std::chrono::seconds(5);
constexpr Duration kEndOfMpi = std::chrono::seconds(10);    // until all ranks have come to it
constexpr Duration kLongestEnd = std::chrono::minutes(10);  // of the others, after the host's own
constexpr Duration kLook = std::chrono::seconds(1);  // for what the store already has, or has not

std::string key_of(Rank rank) { return fmt::format("world/end/{}", to_int(rank)); }

class MemberTies final : public Ties {
 public:
  static Result<std::shared_ptr<MemberTies>> create(MeetingPlace place, Logger log);
  ~MemberTies() override;

  // The engine stays with the ties: its going is seen by others, and has to follow the good-bye.
  Result<std::shared_ptr<comm::Communicator>> connect();
  // What ended connect(), with whom it means.
  Error with_peer(Error why) const;

  std::string name_of(Rank rank) const override;
  std::string last_word_of(Rank rank) const override;
  void set_last_word(std::string word) override {
    const std::lock_guard lock(mutex_);
    word_ = std::move(word);
  }
  void tell_failure(const Error& why) noexcept override {
    if (has_failed_.exchange(true)) return;
    member_->fail(why, cluster::Concerns::kAll, Deadline::after(system_clock(), kGoodbye));
  }
  void serve_the_others() noexcept override {
    if (place_.host) place_.host->wait_for_the_others(Deadline::after(system_clock(), kGoodbye));
  }
  std::optional<comm::CostTable> link_costs() const override { return costs_.table; }

 private:
  MemberTies(MeetingPlace place, Logger log)
      : place_(std::move(place)),
        log_(std::move(log)),
        loop_(net::create_loop("muster-io", log_)) {}
  void say_goodbye();
  void end_mpi();

  MeetingPlace place_;
  const Logger log_;
  const int exceptions_ = std::uncaught_exceptions();
  std::unique_ptr<net::SystemLoop> loop_;
  std::unique_ptr<net::Network> network_;
  std::unique_ptr<comm::MpiNetwork> mpi_;  // where ranks speak over it
  std::string host_;
  comm::CostBook costs_;
  std::unique_ptr<cluster::Member> member_;
  cluster::Membership membership_;
  std::shared_ptr<cluster::KvStore> store_;
  std::shared_ptr<comm::Communicator> communicator_;
  std::atomic<bool> has_failed_{false};
  std::mutex mutex_;
  std::string word_ = "in good order";
};

Result<std::shared_ptr<MemberTies>> MemberTies::create(MeetingPlace place, Logger log) {
  std::shared_ptr<MemberTies> ties(new MemberTies(std::move(place), std::move(log)));
  const MeetingPlace& there = ties->place_;
  MUSTER_ASSIGN(const auto credentials, net::credentials_from_text(there.credentials));
  MUSTER_ASSIGN(ties->network_, net::create_network(*ties->loop_, credentials, {}, ties->log_));
  if (there.over_mpi) {
    MUSTER_ASSIGN(ties->mpi_, begin_mpi(credentials.job(), ties->log_));
  }
  MUSTER_ASSIGN(ties->host_,
                cluster::address_for_others(cluster::system_variable, there.coordinator));
  const cluster::MemberOptions member{
      .coordinator = there.coordinator,
      .info = cluster::describe_this_process(there.rank, system_files()),
      .host = ties->host_,
      .version = build_version()};
  MUSTER_ASSIGN(ties->member_,
                cluster::join(*ties->network_, member,
                              Deadline::after(system_clock(), there.patience + kToldWhoIsMissing),
                              ties->log_));
  ties->membership_ = ties->member_->membership();
  ties->store_ = ties->member_->store(ties->membership_.generation);
  return ties;
}

MemberTies::~MemberTies() {
  const bool ends_well = !has_failed_ && std::uncaught_exceptions() == exceptions_;
  const bool says_goodbye = communicator_ && ends_well;
  if (says_goodbye) say_goodbye();
  communicator_.reset();
  if (says_goodbye) end_mpi();
  if (place_.host) {
    if (!ends_well) member_.reset();  // nobody waits for this one
    place_.host->wait_for_the_others(
        Deadline::after(system_clock(), ends_well ? kLongestEnd : kGoodbye));
  }
  loop_->stop();  // nothing may call what is being destroyed
}

void MemberTies::say_goodbye() {
  const Deadline soon = Deadline::after(system_clock(), kGoodbye);
  const auto kept = store_->set(key_of(membership_.rank), cluster::to_bytes(word_), soon);
  if (!kept) log_->debug("{}", kept.error().message);
  member_->leave(0, soon);
}

// Of ranks that fail somebody may be gone, for whom MPI would wait for ever: its launcher ends it.
void MemberTies::end_mpi() {
  if (!mpi_) return;
  const Status ended = mpi_->finish(Deadline::after(system_clock(), kEndOfMpi));
  if (!ended) log_->warn("{}", ended.error().message);
}

Result<std::shared_ptr<comm::Communicator>> MemberTies::connect() {
  const comm::Group group{membership_.rank, membership_.size(), membership_.generation};
  MUSTER_ASSIGN(
      communicator_,
      comm::create_native({.group = group,
                           .exchange = comm::exchange_through(*store_, group, "world"),
                           .network = mpi_ ? mpi_.get() : network_.get(),
                           .transport = mpi_ ? comm::NativeTransport::kTcp : place_.transport,
                           .connect_timeout = place_.patience,
                           .cancelled = {},
                           .listen_host = host_,
                           .book = &costs_,
                           .log = log_}));
  // Who waits for one that has died is told at once.
  const bool of_first = place_.first_is_host;
  member_->on_lost([of_first, weak = std::weak_ptr(communicator_)](const Error& why) {
    const auto running = weak.lock();
    if (!running) return;
    Error told = why;
    // Its connection is the one to the coordinator.
    if (of_first && told.code == ErrorCode::kPeerLost && told.peer == kNoRank) told.peer = Rank{0};
    running->abort(told);
  });
  return communicator_;
}

Error MemberTies::with_peer(Error why) const {
  if (why.peer == kNoRank || to_int(why.peer) >= membership_.size()) return why;
  const cluster::WorkerInfo& info =
      membership_.members[static_cast<std::size_t>(to_int(why.peer))].info;
  why.message += fmt::format("; rank {} is pid {} on {}", to_int(why.peer), info.pid, info.host);
  return why;
}

std::string MemberTies::name_of(Rank rank) const {
  const cluster::WorkerInfo& info =
      membership_.members[static_cast<std::size_t>(to_int(rank))].info;
  return fmt::format("rank {} (pid {} on {})", to_int(rank), info.pid, info.host);
}

std::string MemberTies::last_word_of(Rank rank) const {
  // Asks for what is there without waiting for it.
  const auto nothing = cluster::to_bytes("?");
  const auto word = store_->compare_exchange(key_of(rank), nothing, nothing,
                                             Deadline::after(system_clock(), kLook));
  return word ? cluster::to_string(*word) : std::string();
}

}  // namespace

Result<World> meet(MeetingPlace place, const Logger& log) {
  MUSTER_ASSIGN(auto ties, MemberTies::create(std::move(place), log));
  auto communicator = ties->connect();
  if (!communicator) return ties->with_peer(std::move(communicator).error());
  return World(*std::move(communicator), std::move(ties), log);
}

}  // namespace muster::app
