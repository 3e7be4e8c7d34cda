#pragma once
// Reads a run's ledger (observe/sinks/ledger) and says whether every sample of every epoch was
// committed exactly once, as far as its steps are recorded. Pure.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/ids.h"
#include "muster/base/result.h"

namespace muster::app {

struct LedgerAudit {
  std::int64_t steps = 0;         // committed, as the run stands
  std::int64_t samples = 0;       // in them
  std::int64_t whole_epochs = 0;  // all of whose samples are in
  std::int64_t epoch_size = 0;
  std::int64_t generations = 0;  // that committed a step
  std::int64_t starts = 0;
  std::int64_t lost = 0;        // samples that no committed step consumed
  std::int64_t repeated = 0;    // samples that two did
  std::int64_t superseded = 0;  // steps that were trained again; not counted above
  std::int64_t unrecorded = 0;  // steps of the run as it stands that are not in the ledger
  std::vector<std::pair<std::int64_t, std::int64_t>> unrecorded_ranges;  // of them, first and last
  std::vector<std::string> faults;  // what does not hold, each with its line; empty: all is well

  // Of what is recorded nothing is wrong,
  bool well() const noexcept { return lost == 0 && repeated == 0 && faults.empty(); }
  // and everything is recorded: every sample was committed exactly once.
  bool proven() const noexcept { return well() && unrecorded == 0; }
};

// kCorrupt for a text that no ledger is, such as one without its first line. `reached`: the step
// after which the run stands by what else it has recorded; those behind the ledger's last are
// unrecorded.
Result<LedgerAudit> audit_ledger(std::string_view text, Step reached = Step{0});

}  // namespace muster::app
