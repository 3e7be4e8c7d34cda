#pragma once
// What training sees of a membership that changes under it: one generation after the other.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/comm/communicator.h"

namespace muster::train {

struct Entry {  // one generation, from the inside
  std::shared_ptr<comm::Communicator> communicator;
  std::vector<std::int32_t> workers;  // by rank; numbers that a worker keeps for life
  std::vector<std::string> places;    // by rank: "pid 4711 on host"
};

// One thread.
class Generations {
 public:
  virtual ~Generations() = default;
  virtual const Entry& current() const noexcept = 0;

  // A next one is planned: somebody joins or goes, and everybody changes over after a step.
  virtual bool changing() const = 0;

  // Whether after this error another generation may come. Else it is the end of the training here:
  // the membership is fixed, or the fault was this worker's own.
  virtual bool outlives(const Error& why) const = 0;

  // Waits until the next generation has formed and is connected; nothing: it does without this
  // worker. `why`: the operation of the present one that failed, and that it outlives; none: it is
  // over as planned. `patience`: how long members of it that live may take to come. An error: no
  // next generation came in time.
  virtual Result<std::optional<Entry>> next(const std::optional<Error>& why, Duration patience) = 0;

  // This worker has what the others have, and could hand it over; said again and again.
  virtual void tell_whole() = 0;
  // The planned one lacks one of the present one's workers.
  virtual bool loses_somebody() const = 0;

  // This worker wants to go; the others are better off without it.
  virtual void resign() = 0;
  virtual bool leaving() const noexcept = 0;  // it does, or was told to
  // This worker's bits are wrong: the others go on without it, at once. It has no next generation.
  virtual void quarantine(const Error& why) = 0;
};

}  // namespace muster::train
