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

// At the speed of memory: equal bits, equal sum; one bit changed, or two words in each other's
// place, another sum (base/checksum.h).
struct StateChecksum {
  std::uint64_t shared = 0;  // of what all workers hold alike
  std::uint64_t own = 0;     // of the rest, which only those hold that have the same part
  friend bool operator==(const StateChecksum&, const StateChecksum&) = default;
};
StateChecksum state_checksum(parallel::Strategy& strategy);
// Of that in which a wrong bit has to show before the next update does more with it: all but an
// optimizer's state that others have as well, which shows in the weights then, here a step before
// it shows in anybody else's.
std::uint64_t guarded_checksum(parallel::Strategy& strategy);

struct ReplicaReport {
  StateChecksum sum = {};
  bool guilty = false;  // its memory has changed between two updates, as it found itself
  std::optional<Step> verified = {};  // after which it last knew that all were the same
  std::int32_t part = 0;              // that it has (Strategy::part_of)
};

// By rank. Collective.
Result<std::vector<ReplicaReport>> exchange_reports(comm::Communicator& communicator,
                                                    const ReplicaReport& mine,
                                                    const comm::OpOptions& options);

// Those who are guilty; else those who differ from more than half of the ranks with the same part;
// else, in what all hold, from more than half of all. Parts come first, since whoever has a wrong
// one may give others wrong weights that come of it. Nothing where no more than half agree, so that
// nobody can tell. Empty: all are the same.
std::optional<std::vector<Rank>> odd_ones_out(const std::vector<ReplicaReport>& reports);
bool are_equal(const std::vector<ReplicaReport>& reports);

// Where ranks have just got their part from others, `sources` by rank: those who differ from theirs
// though it is right. Empty: nobody can tell, for what others had before is wrong.
std::vector<Rank> copied_wrong(const std::vector<ReplicaReport>& reports,
                               const std::vector<Rank>& sources);

}  // namespace muster::train
