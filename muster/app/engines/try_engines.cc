#include "muster/app/engines/try_engines.h"

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <vector>

#include "muster/app/engines/two_ranks.h"
#include "muster/comm/backend/loopback/loopback.h"

namespace muster::app {
namespace {

constexpr std::int32_t kRanks = 2;
constexpr std::size_t kCount = 1000;
constexpr std::chrono::seconds kLimit{5};

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

Status try_native(comm::NativeTransport transport) {
  MUSTER_ASSIGN(const auto pair, TwoRanks::connect(transport, kLimit));
  return on_each(pair->ranks(), sum);
}

}  // namespace

std::vector<EngineTrial> try_engines() {
  return {{"loopback", on_each(comm::create_loopback(kRanks), sum)},
          {"shared memory", try_native(comm::NativeTransport::kSharedMemory)},
          {"TCP with TLS", try_native(comm::NativeTransport::kTcp)}};
}

}  // namespace muster::app
