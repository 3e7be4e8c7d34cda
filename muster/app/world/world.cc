#include "muster/app/world/world.h"

#include <fmt/format.h>

#include "muster/app/world/member_ties.h"
#include "muster/cluster/environment.h"
#include "muster/comm/backend/loopback/loopback.h"

namespace muster::app {

Error World::explain(const Error& why, const std::string& what) const {
  Error told = with_context(why, fmt::format("[world] rank {}, {}", rank(), what));
  if (!ties_ || why.peer == kNoRank || to_int(why.peer) >= size()) return told;
  told.message += "; the culprit is " + ties_->name_of(why.peer);
  if (const std::string word = ties_->last_word_of(why.peer); !word.empty())
    told.message += fmt::format(
        ", which has come to its end {}: give every rank the same number of batches", word);
  return told;
}

void World::set_last_word(std::string word) const {
  if (ties_) ties_->set_last_word(std::move(word));
}

void World::fail(const Error& why) const noexcept {
  if (ties_) ties_->tell_failure(why);
  communicator_->abort(why);
}

World join() {
  const Logger log = create_stderr_logger();  // standard output is the user's
  auto environment = cluster::read_environment(cluster::system_variable);
  if (!environment) {
    if (environment.error().code != ErrorCode::kNotFound) throw Failure(environment.error());
    log->info("started by itself: a world of one process");
    return {comm::create_loopback(1).front(), nullptr, log};
  }
  log->set_level(spdlog::level::warn);
  auto met = meet(*environment, log);
  if (!met) throw Failure(met.error());
  if (met->rank() == 0) log->set_level(spdlog::level::info);
  log->info("started by muster launch: a world of {} process{}", met->size(),
            met->size() == 1 ? "" : "es");
  return *std::move(met);
}

}  // namespace muster::app
