#pragma once
// QueuedSink: lets a sink that may block (disk, terminal, network) run on a thread of its own.

#include <cstddef>
#include <memory>

#include "muster/base/clock.h"
#include "muster/observe/hub.h"

namespace muster::observe {

struct QueuedSinkOptions {
  std::size_t capacity = 65536;  // records waiting; beyond it new spans and metrics are dropped
  Duration drain_timeout = std::chrono::seconds(5);  // of the destructor
};

// take() never blocks. The destructor hands the rest of the queue to `sink` first, within
// drain_timeout. What had to be dropped is counted and told to `sink` in a Notice. Thread-safe.
std::shared_ptr<Sink> create_queued_sink(std::shared_ptr<Sink> sink, Clock& clock,
                                         const QueuedSinkOptions& options = {});

}  // namespace muster::observe
