#pragma once
// Workers that train alike hold the same bits. Where one does not, its memory or processor has
// failed without a word (silent data corruption). Pure but for the exchange.

#include <cstdint>
#include <optional>
#include <vector>

#include "muster/base/result.h"
#include "muster/comm/communicator.h"
#include "muster/parallel/strategy.h"

namespace muster::train {

// Of what all workers hold alike, at the speed of memory: equal bits, equal sum; one bit changed,
// or two words in each other's place, another sum (base/checksum.h).
std::uint64_t state_checksum(parallel::Strategy& strategy);

struct ReplicaReport {
  std::uint64_t sum = 0;
  bool guilty = false;  // its memory has changed between two updates, as it found itself
  std::optional<Step> verified = {};  // after which it last knew that all were the same
};

// By rank. Collective.
Result<std::vector<ReplicaReport>> exchange_reports(comm::Communicator& communicator,
                                                    const ReplicaReport& mine,
                                                    const comm::OpOptions& options);

// Those who are guilty, else those who differ from more than half of all; nothing where no more
// than half agree, so that nobody can tell. Empty: all are the same.
std::optional<std::vector<Rank>> odd_ones_out(const std::vector<ReplicaReport>& reports);

}  // namespace muster::train
