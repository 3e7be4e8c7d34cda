#include "muster/app/world/member_ties.h"

#include <fmt/format.h>

#include <atomic>
#include <exception>
#include <mutex>

#include "muster/cluster/member.h"
#include "muster/comm/backend/native/native.h"
#include "muster/net/network.h"

namespace muster::app {
namespace {

constexpr Duration kMeeting = std::chrono::seconds(60);
constexpr Duration kGoodbye = std::chrono::seconds(2);
constexpr Duration kLook = std::chrono::seconds(1);  // for what the store already has, or has not

std::string key_of(Rank rank) { return fmt::format("world/end/{}", to_int(rank)); }

class MemberTies final : public Ties {
 public:
  static Result<std::shared_ptr<MemberTies>> create(const cluster::WorkerEnvironment& environment,
                                                    Logger log);
  ~MemberTies() override;

  // The engine stays with the ties: its going is seen by others, and has to follow the good-bye.
  Result<std::shared_ptr<comm::Communicator>> connect();

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

 private:
  explicit MemberTies(Logger log)
      : log_(std::move(log)), loop_(net::create_loop("muster-io", log_)) {}
  void say_goodbye();

  const Logger log_;
  const int exceptions_ = std::uncaught_exceptions();
  std::unique_ptr<net::SystemLoop> loop_;
  std::unique_ptr<net::Network> network_;
  std::string host_;
  std::unique_ptr<cluster::Member> member_;
  cluster::Membership membership_;
  std::shared_ptr<cluster::KvStore> store_;
  std::shared_ptr<comm::Communicator> communicator_;
  std::atomic<bool> has_failed_{false};
  std::mutex mutex_;
  std::string word_ = "in good order";
};

Result<std::shared_ptr<MemberTies>> MemberTies::create(
    const cluster::WorkerEnvironment& environment, Logger log) {
  const std::shared_ptr<MemberTies> ties(new MemberTies(std::move(log)));
  MUSTER_ASSIGN(const auto credentials, net::credentials_from_text(environment.credentials));
  MUSTER_ASSIGN(ties->network_, net::create_network(*ties->loop_, credentials, {}, ties->log_));
  MUSTER_ASSIGN(ties->host_, net::local_host_towards(environment.coordinator));
  const cluster::MemberOptions member{
      .coordinator = environment.coordinator,
      .info = cluster::describe_this_process(environment.worker, system_files()),
      .host = ties->host_};
  MUSTER_ASSIGN(ties->member_,
                cluster::join(*ties->network_, member, Deadline::after(system_clock(), kMeeting),
                              ties->log_));
  ties->membership_ = ties->member_->membership();
  ties->store_ = ties->member_->store(ties->membership_.generation);
  return ties;
}

MemberTies::~MemberTies() {
  const bool ends_well = !has_failed_ && std::uncaught_exceptions() == exceptions_;
  if (communicator_ && ends_well) say_goodbye();
  communicator_.reset();
  loop_->stop();  // nothing may call what is being destroyed
}

void MemberTies::say_goodbye() {
  const Deadline soon = Deadline::after(system_clock(), kGoodbye);
  const auto kept = store_->set(key_of(membership_.rank), cluster::to_bytes(word_), soon);
  if (!kept) log_->debug("{}", kept.error().message);
  member_->leave(soon);
}

Result<std::shared_ptr<comm::Communicator>> MemberTies::connect() {
  const comm::Group group{membership_.rank, membership_.size(), membership_.generation};
  MUSTER_ASSIGN(communicator_,
                comm::create_native({.group = group,
                                     .exchange = comm::exchange_through(*store_, group, "world"),
                                     .network = network_.get(),
                                     .connect_timeout = kMeeting,
                                     .cancelled = {},
                                     .listen_host = host_,
                                     .log = log_}));
  // Who waits for one that has died is told at once.
  member_->on_lost([weak = std::weak_ptr(communicator_)](const Error& why) {
    if (const auto running = weak.lock()) running->abort(why);
  });
  return communicator_;
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

Result<World> meet(const cluster::WorkerEnvironment& environment, const Logger& log) {
  MUSTER_ASSIGN(auto ties, MemberTies::create(environment, log));
  MUSTER_ASSIGN(auto communicator, ties->connect());
  return World(std::move(communicator), std::move(ties), log);
}

}  // namespace muster::app
