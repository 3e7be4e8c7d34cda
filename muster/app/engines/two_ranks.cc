#include "muster/app/engines/two_ranks.h"

#include <cstdint>
#include <thread>
#include <utility>

#include "muster/cluster/store.h"
#include "muster/net/credentials.h"
#include "muster/net/loop.h"
#include "muster/net/network.h"

namespace muster::app {
namespace {

constexpr std::size_t kTwo = 2;

// body(i) for each of the two on a thread of its own; the error of the lowest that has one.
Status on_both(const std::function<Status(std::size_t)>& body) {
  std::vector<Status> outcomes(kTwo);
  {
    std::vector<std::jthread> threads;
    threads.reserve(kTwo);
    for (std::size_t i = 0; i < kTwo; ++i) threads.emplace_back([&, i] { outcomes[i] = body(i); });
  }
  for (const Status& outcome : outcomes) MUSTER_TRY(outcome);
  return ok();
}

// A network with a loop of its own, which stops before anything of it goes.
struct OwnNetwork {
  std::unique_ptr<net::SystemLoop> loop;
  std::unique_ptr<net::Network> network;
};

class NativePair final : public TwoRanks {
 public:
  ~NativePair() override {
    ranks_.clear();
    for (const OwnNetwork& one : networks_) one.loop->stop();
  }

  const LocalRanks& ranks() const noexcept override { return ranks_; }

  Status open_networks() {
    const Logger log = create_null_logger();
    MUSTER_ASSIGN(const auto credentials, net::create_credentials(system_clock().wall()));
    for (std::size_t i = 0; i < kTwo; ++i) {
      auto loop = net::create_loop("trial", log);
      OwnNetwork& own = networks_.emplace_back();
      own.loop = std::move(loop);
      MUSTER_ASSIGN(own.network, net::create_network(*own.loop, credentials, {}, log));
    }
    return ok();
  }

  Status meet(comm::NativeTransport transport, Duration limit, comm::CostBook* book) {
    return on_both([&](std::size_t i) -> Status {
      comm::NativeOptions options;
      options.group = {Rank{static_cast<std::int32_t>(i)}, kTwo, Generation{1}};
      options.exchange = comm::exchange_through(*store_, options.group, "trial");
      options.network = networks_.empty() ? nullptr : networks_[i].network.get();
      options.transport = transport;
      options.connect_timeout = limit;
      options.book = i == 0 ? book : nullptr;
      MUSTER_ASSIGN(ranks_[i], comm::create_native(options));
      return ok();
    });
  }

 private:
  std::vector<OwnNetwork> networks_;
  const std::unique_ptr<cluster::KvStore> store_ = cluster::create_memory_store();
  LocalRanks ranks_ = LocalRanks(kTwo);
};

}  // namespace

Status on_each(const LocalRanks& ranks, const std::function<Status(comm::Communicator&)>& body) {
  return on_both([&](std::size_t i) {
    Status outcome = body(*ranks[i]);
    if (!outcome) ranks[i]->abort(outcome.error());
    return outcome;
  });
}

Result<std::unique_ptr<TwoRanks>> TwoRanks::connect(comm::NativeTransport transport, Duration limit,
                                                    comm::CostBook* book) {
  auto pair = std::make_unique<NativePair>();
  if (transport == comm::NativeTransport::kTcp) MUSTER_TRY(pair->open_networks());
  MUSTER_TRY(pair->meet(transport, limit, book));
  return std::unique_ptr<TwoRanks>(std::move(pair));
}

}  // namespace muster::app
