#pragma once
// What an engine adds to the machinery that all engines share (engine_communicator.h): how one
// collective runs, how messages go, how failure spreads.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/comm/communicator.h"

namespace muster::comm {

// Tells everybody `mine` and returns what each rank told, by rank; in the same order on all ranks.
using Exchange =
    std::function<Result<std::vector<std::string>>(const std::string& mine, Deadline deadline)>;

// One collective as it runs. `sequence` counts the group's collectives from 1, alike on all ranks.
struct Call {
  const Op& op;
  const OpOptions& options;
  std::uint64_t sequence;
  Deadline deadline;
};

class Engine {
 public:
  virtual ~Engine() = default;

  // Runs a collective to its end. One at a time, in order of sequence, in any thread.
  virtual Status run(const Call& call) = 0;
  // For whom run() waits now, or has waited when it failed. Any thread. None: it does not know.
  virtual std::optional<Awaited> awaited() const { return std::nullopt; }

  // Messages between two ranks, on one other thread. try_send has read the tensor when it returns
  // true, which may take until `deadline`; false: no room now; its errors end the group.
  // try_recv: false: not there yet. Messages of one sender and tag stay in order.
  virtual Result<bool> try_send(const Send& send, Deadline deadline) = 0;
  virtual Result<bool> try_recv(const Recv& recv) = 0;
  // Whether try_recv has taken some of the message already: who gives it up then leaves the rest,
  // for which nobody has a place.
  virtual bool has_part(const Recv& recv) const = 0;
  // Changes whenever one of the above may have become possible.
  virtual std::uint32_t activity() const noexcept = 0;
  virtual void await_activity(std::uint32_t seen, TimePoint until) = 0;
  virtual void wake() noexcept = 0;  // ends await_activity; any thread

  // Ends everything under way here with `why`, and tells the peers. Any thread, does not block.
  virtual void fail(const Error& why) noexcept = 0;
  // The same without telling: before destruction.
  virtual void stop(const Error& why) noexcept = 0;
  // After one of the two: waits, briefly at most, until nothing reads or writes the callers' memory
  // any more.
  virtual void drain() noexcept {}

  virtual Result<Buffer> allocate(std::size_t bytes);  // plain memory unless overridden

  // The engine of a part of this group. Collective: all ranks call `exchange` equally often, and it
  // gives the answers of the part's ranks.
  virtual Result<std::unique_ptr<Engine>> split(Group part, std::int32_t color,
                                                const Exchange& exchange, Deadline deadline) = 0;
};

}  // namespace muster::comm
