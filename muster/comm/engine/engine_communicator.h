#pragma once
// A Communicator over an Engine: submission, order, deadlines, failure and split, the same for all
// engines. Collectives run in order of submission, in the thread that waits for one of them, or in
// one of the communicator's own where nobody does; messages between two ranks in another, started
// by the first of them, so that neither waits for the other kind.

#include <memory>

#include "muster/comm/engine/engine.h"

namespace muster::comm {

// `clock` outlives the communicator.
std::shared_ptr<Communicator> create_communicator(Group group, std::unique_ptr<Engine> engine,
                                                  Clock& clock);

}  // namespace muster::comm
