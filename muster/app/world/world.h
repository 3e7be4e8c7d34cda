#pragma once
// World: the processes that compute together, in a program that has its own training loop.

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "muster/base/log.h"
#include "muster/base/result.h"
#include "muster/comm/communicator.h"
#include "muster/comm/cost.h"

namespace muster::app {

// What a loop of a user's gets where muster would give an Error.
class Failure final : public std::runtime_error {
 public:
  explicit Failure(Error why) : std::runtime_error(why.message), why_(std::move(why)) {}
  const Error& why() const noexcept { return why_; }

 private:
  Error why_;
};

// How a rank is tied to the others, behind a World: through a launcher, or not at all.
class Ties {
 public:
  virtual ~Ties() = default;
  // "rank 1 (pid 77 on host b)"
  virtual std::string name_of(Rank rank) const = 0;
  // What `rank` said when it came to its regular end; empty: it has not.
  virtual std::string last_word_of(Rank rank) const = 0;
  virtual void set_last_word(std::string word) = 0;
  // Tells the launcher and with it all others of this rank's own failure.
  virtual void tell_failure(const Error& why) noexcept = 0;
  // A failure has been found, and what its user does about it may end this process at once: what
  // others need of it to hear of the same is done before, for two seconds at most.
  virtual void serve_the_others() noexcept = 0;
  // By which schedules are chosen; none where memory is shared.
  virtual std::optional<comm::CostTable> link_costs() const = 0;
};

// A cheap value; copies are the same world. Thread-safe. The last copy says good-bye to the others,
// for at most two seconds, or ten minutes where this rank keeps the coordinator and they go on: a
// loop of a user's has no better place for it. While an exception flies
// it says nothing, so that the others learn of a loss.
class World {
 public:
  // Of ranks that have met in another way.
  explicit World(std::shared_ptr<comm::Communicator> communicator)
      : World(std::move(communicator), nullptr, create_null_logger()) {}
  World(std::shared_ptr<comm::Communicator> communicator, std::shared_ptr<Ties> ties, Logger log)
      : log_(std::move(log)), ties_(std::move(ties)), communicator_(std::move(communicator)) {}

  std::int32_t rank() const noexcept { return to_int(communicator_->group().rank); }
  std::int32_t size() const noexcept { return communicator_->group().size; }
  // Operations of all ranks, in the same order on each.
  comm::Communicator& communicator() const noexcept { return *communicator_; }
  const Logger& log() const noexcept { return log_; }

  // For parts of muster that compute in a world.
  // `why`, as an operation that did `what` ended here; with the culprit's process and host, and
  // whether it has simply come to its end.
  Error explain(const Error& why, const std::string& what) const;
  // How far this rank has come, told to those who wait for it after its end.
  void set_last_word(std::string word) const;
  // This rank cannot go on: the others learn why, and what is pending ends.
  void fail(const Error& why) const noexcept;
  // What the ranks have measured of the links between them; none where there are none.
  std::optional<comm::CostTable> link_costs() const {
    return ties_ ? ties_->link_costs() : std::nullopt;
  }

 private:
  Logger log_;
  std::shared_ptr<Ties> ties_;  // none: nobody to tell
  std::shared_ptr<comm::Communicator> communicator_;
};

}  // namespace muster::app
