#pragma once
// How ranks that build a group together tell each other how it went: who fails tells why before it
// leaves, so that nobody waits for it.

#include <string>
#include <string_view>
#include <vector>

#include "muster/comm/engine/engine.h"

namespace muster::comm {

// Cuts the first word off `text`, and the space behind it.
std::string_view next_word(std::string_view& text);

// Another member wrote `text`; it may hold anything.
Error no_sense(const Group& group, Rank from, std::string_view expected, std::string_view text);

// An exchange of what each rank made, or why it could not: that of this rank first, then that of
// the lowest other one. Collective, also for a rank that failed.
Result<std::vector<std::string>> share(const Exchange& exchange, const Group& group,
                                       const Result<std::string>& mine, Deadline deadline);

}  // namespace muster::comm
