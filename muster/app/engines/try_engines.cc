#include "muster/app/engines/try_engines.h"

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <thread>

#include "muster/cluster/store.h"
#include "muster/comm/backend/loopback/loopback.h"
#include "muster/comm/backend/native/native.h"
#include "muster/net/credentials.h"
#include "muster/net/loop.h"
#include "muster/net/network.h"

namespace muster::app {
namespace {

constexpr std::int32_t kRanks = 2;
constexpr std::size_t kCount = 1000;
constexpr std::chrono::seconds kLimit{5};

using Ranks = std::vector<std::shared_ptr<comm::Communicator>>;

// Each rank on a thread of its own; the error of the lowest that has one.
Status on_all(const std::function<Status(std::int32_t)>& body) {
  std::vector<Status> outcomes(kRanks);
  {
    std::vector<std::jthread> threads;
    threads.reserve(kRanks);
    for (std::int32_t rank = 0; rank < kRanks; ++rank)
      threads.emplace_back([&, rank] { outcomes[static_cast<std::size_t>(rank)] = body(rank); });
  }
  for (const Status& outcome : outcomes) MUSTER_TRY(outcome);
  return ok();
}

// Rank r brings (r + 1) · i as element i.
Status sum(comm::Communicator& world) {
  const float own = static_cast<float>(to_int(world.group().rank) + 1);
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i) values[i] = own * static_cast<float>(i);
  comm::OpOptions options;
  options.timeout = kLimit;
  options.label = "trial";
  MUSTER_TRY(world.submit(comm::AllReduce{view_of(std::span(values))}, options).wait());
  for (std::size_t i = 0; i < kCount; ++i) {
    if (values[i] == 3 * static_cast<float>(i)) continue;
    return fail(ErrorCode::kInternal,
                fmt::format("[app/engines] element {} of a sum over {} ranks is {} instead of {}; "
                            "please report it",
                            i, kRanks, values[i], 3 * i));
  }
  return ok();
}

Status sum_on_all(const Ranks& ranks) {
  return on_all([&](std::int32_t rank) { return sum(*ranks[static_cast<std::size_t>(rank)]); });
}

// The ranks stay until all are done.
Status try_native(comm::NativeTransport transport, net::Network* network) {
  const auto store = cluster::create_memory_store();
  Ranks ranks(kRanks);
  MUSTER_TRY(on_all([&](std::int32_t rank) -> Status {
    comm::NativeOptions options;
    options.group = {Rank{rank}, kRanks, Generation{1}};
    options.exchange = comm::exchange_through(*store, options.group, "trial");
    options.network = network;
    options.transport = transport;
    options.connect_timeout = kLimit;
    MUSTER_ASSIGN(ranks[static_cast<std::size_t>(rank)], comm::create_native(options));
    return ok();
  }));
  return sum_on_all(ranks);
}

// With certificates as a job has them, on the loopback interface.
Status try_tcp() {
  const Logger log = create_null_logger();
  MUSTER_ASSIGN(const auto credentials, net::create_credentials(system_clock().wall()));
  const auto loop = net::create_loop("trial", log);
  MUSTER_ASSIGN(const auto network, net::create_network(*loop, credentials, {}, log));
  const Status outcome = try_native(comm::NativeTransport::kTcp, network.get());
  loop->stop();
  return outcome;
}

}  // namespace

std::vector<EngineTrial> try_engines() {
  return {{"loopback", sum_on_all(comm::create_loopback(kRanks))},
          {"shared memory", try_native(comm::NativeTransport::kSharedMemory, nullptr)},
          {"TCP with TLS", try_tcp()}};
}

}  // namespace muster::app
