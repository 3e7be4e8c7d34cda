#include "muster/app/world/world.h"

#include <fmt/format.h>

namespace muster::app {

Error World::explain(const Error& why, const std::string& what) const {
  Error told = with_context(why, fmt::format("[world] rank {}, {}", rank(), what));
  if (!ties_) return told;
  if (why.peer != kNoRank && to_int(why.peer) < size()) {
    told.message += "; the culprit is " + ties_->name_of(why.peer);
    if (const std::string word = ties_->last_word_of(why.peer); !word.empty())
      told.message += fmt::format(
          ", which has come to its end {}: give every rank the same number of batches", word);
  }
  ties_->serve_the_others();
  return told;
}

void World::set_last_word(std::string word) const {
  if (ties_) ties_->set_last_word(std::move(word));
}

void World::fail(const Error& why) const noexcept {
  if (ties_) ties_->tell_failure(why);
  communicator_->abort(why);
  if (ties_) ties_->serve_the_others();
}

}  // namespace muster::app
