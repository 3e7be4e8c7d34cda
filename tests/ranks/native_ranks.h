#pragma once
// Ranks of the native engine, as threads of this process.

#include "muster/comm/backend/native/native.h"
#include "muster/net/network.h"
#include "tests/ranks/ranks.h"

namespace muster::comm {

struct NativeRanks {
  NativeTransport transport = NativeTransport::kAuto;
  net::Network* network = nullptr;
  std::int32_t hosts = 1;               // that they are dealt to in turn
  EngineOver over = {};                 // as in NativeOptions
  std::size_t reads_from = kReadsFrom;  // likewise
};

// They meet over a store, as processes would. What does not come about is a failure of the test.
Ranks create_native_ranks(std::int32_t size, const NativeRanks& wanted);

// One for the whole program, with TLS.
net::Network& test_network();

}  // namespace muster::comm
