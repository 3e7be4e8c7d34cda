#include "muster/app/rendezvous/torch_store.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStoreBackend.hpp>

#include "muster/base/awaited.h"
#include "muster/net/reach.h"

namespace muster::app {
namespace {

using std::chrono::milliseconds;

constexpr Duration kAskOwner = std::chrono::seconds(3);  // of the port, who it is

milliseconds left_until(Deadline deadline) {
  return std::max(milliseconds(1),
                  std::chrono::duration_cast<milliseconds>(deadline.left(system_clock())));
}

// Without the stack of calls that torch adds.
std::string first_line(const char* what) {
  const std::string text(what);
  return text.substr(0, text.find('\n'));
}

Status leads_somewhere(const net::Address& address) {
  MUSTER_TRY(net::local_host_towards(address));
  return ok();
}

template <class Value>
void append(std::string& message, Value value) {
  message.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// As torch's own client makes itself known and asks whether the server is there. Where it finds
// another one it says so many times, with its stack.
net::Exchange known_to_torch() {
  using c10d::detail::QueryType;
  constexpr std::uint32_t kSentBack = 0x6d757374;
  net::Exchange known;
  append(known.question, QueryType::VALIDATE);
  append(known.question, c10d::detail::validationMagicNumber);
  append(known.question, QueryType::PING);
  append(known.question, kSentBack);
  append(known.answer, kSentBack);
  return known;
}

// For rank 0 its own store is here, also where MASTER_ADDR is that of a gateway, or a mistake.
std::string host_of_store(const net::Address& meeting, bool is_own) {
  const auto leads_here = net::is_own_host(meeting.host);
  return is_own && leads_here && !*leads_here ? "127.0.0.1" : meeting.host;
}

using Connected = Result<c10::intrusive_ptr<c10d::Store>>;

// Where what answers falls silent, torch waits for it without end: on a thread of its own, then.
Connected connect(const std::string& host, const c10d::TCPStoreOptions& options,
                  Deadline deadline) {
  Awaited<Connected> connected;
  std::thread([host, options, giver = connected.giver()] {
    try {
      giver->give(
          c10::intrusive_ptr<c10d::Store>(c10::make_intrusive<c10d::TCPStore>(host, options)));
    } catch (const std::exception& why) {
      giver->give(fail(ErrorCode::kUnavailable, first_line(why.what())));
    }
  }).detach();
  if (auto ended = connected.wait(system_clock(), deadline)) return *std::move(ended);
  return fail(ErrorCode::kTimeout, "no answer that torch's store would give");
}

class TorchStore final : public cluster::KvStore {
 public:
  explicit TorchStore(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}

  Status set(const std::string& key, cluster::Bytes value, Deadline deadline) override {
    return attempt(key, deadline, [&] {
      store_->set(key, of_bytes(value));
      return ok();
    });
  }
  Result<cluster::Bytes> get(const std::string& key, Deadline deadline) override {
    return attempt(key, deadline,
                   [&] { return Result<cluster::Bytes>(to_bytes(store_->get(key))); });
  }
  Result<std::int64_t> add(const std::string& key, std::int64_t delta, Deadline deadline) override {
    return attempt(key, deadline, [&] { return Result<std::int64_t>(store_->add(key, delta)); });
  }
  Result<cluster::Bytes> compare_exchange(const std::string& key, cluster::Bytes expected,
                                          cluster::Bytes desired, Deadline deadline) override {
    return attempt(key, deadline, [&] {
      return Result<cluster::Bytes>(
          to_bytes(store_->compareSet(key, of_bytes(expected), of_bytes(desired))));
    });
  }

 private:
  using Torch = std::vector<std::uint8_t>;
  static Torch of_bytes(const cluster::Bytes& bytes) {
    const auto* begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
    return {begin, begin + bytes.size()};
  }
  static cluster::Bytes to_bytes(const Torch& bytes) {
    const auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
    return {begin, begin + bytes.size()};
  }

  template <class Call>
  std::invoke_result_t<Call> attempt(const std::string& key, Deadline deadline, const Call& call) {
    try {
      store_->setTimeout(left_until(deadline));
      return call();
    } catch (const std::exception& why) {
      const bool late = deadline.left(system_clock()) <= Duration(0);
      return fail(
          late ? ErrorCode::kTimeout : ErrorCode::kPeerLost,
          fmt::format("[app/rendezvous] {} in torch's store: {}", key, first_line(why.what())));
    }
  }

  c10::intrusive_ptr<c10d::Store> store_;
};

Result<std::unique_ptr<cluster::KvStore>> connect_store(const std::string& host,
                                                        const c10d::TCPStoreOptions& options,
                                                        Deadline deadline) {
  MUSTER_ASSIGN(auto store, connect(host, options, deadline));
  return std::make_unique<TorchStore>(
      c10::make_intrusive<c10d::PrefixStore>("muster", std::move(store)));
}

// Where rank 0 cannot keep the store: nothing but a job of muster's says so.
std::optional<Error> find_owner(const cluster::StartedBy& by, const cluster::MeetingProcess& self,
                                c10d::TCPStoreOptions options, Deadline deadline) {
  const Deadline soon =
      Deadline::after(system_clock(), std::min(deadline.left(system_clock()), kAskOwner));
  if (!net::await_server(by.meeting, known_to_torch(), soon)) return std::nullopt;
  options.isServer = false;
  options.timeout = left_until(soon);
  auto store = connect_store(by.meeting.host, options, soon);
  return store ? cluster::contest_port(**store, by, self, soon) : std::nullopt;
}

Error another_server(const std::string& where, const Error& why) {
  return fail(why.code,
              fmt::format("[app/rendezvous] torch's store at {}: {}; what answers there, if not "
                          "this job's rank 0?",
                          where, why.message));
}

Error no_store(const cluster::StartedBy& by, const std::string& where, const Error& why) {
  if (why.code == ErrorCode::kTimeout) return another_server(where, why);
  return with_context(why, fmt::format("[app/rendezvous] {} should keep torch's store at {}",
                                       by.is_served ? by.launcher : "rank 0", where));
}

// Under a launcher's own store only that launcher's ranks come, with what sets each start apart.
Status agree_on_owner(cluster::KvStore& store, const cluster::StartedBy& by,
                      const cluster::MeetingProcess& self, Deadline deadline) {
  if (by.rank == 0) return cluster::own_port(store, by, self, deadline);
  return by.is_served ? ok() : cluster::check_port_owner(store, by, self, deadline);
}

}  // namespace

Result<std::unique_ptr<cluster::KvStore>> open_torch_store(const cluster::StartedBy& by,
                                                           const cluster::MeetingProcess& self,
                                                           Deadline deadline) {
  c10d::TCPStoreOptions options;
  options.port = by.meeting.port;
  options.isServer = by.rank == 0 && !by.is_served;
  options.waitWorkers = false;
  const std::string where = net::to_string(by.meeting) + " (MASTER_ADDR, MASTER_PORT)";
  const Status there = options.isServer ? leads_somewhere(by.meeting)
                                        : net::await_server(by.meeting, known_to_torch(), deadline);
  if (!there) return no_store(by, where, there.error());
  options.timeout = left_until(deadline);
  auto store = connect_store(host_of_store(by.meeting, options.isServer), options, deadline);
  if (store) {
    MUSTER_TRY(agree_on_owner(**store, by, self, deadline));
    return store;
  }
  if (!options.isServer) return another_server(where, store.error());
  if (auto owner = find_owner(by, self, options, deadline)) return *std::move(owner);
  return fail(store.error().code,
              fmt::format("[app/rendezvous] torch's store at {}: {}; does another job use that "
                          "port?",
                          where, store.error().message));
}

}  // namespace muster::app
