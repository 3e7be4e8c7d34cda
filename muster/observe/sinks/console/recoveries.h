#pragma once
// One line for a recovery that goes as it should, in the place of each of its notices: who was lost
// and where, who goes on and from which step, how long that took, and who comes in the lost one's
// place. What goes otherwise is told notice by notice. For the console; files have every notice.

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/observe/hub.h"

namespace muster::observe {

// Hands records to `behind`, those that are no part of a recovery at once. Of a loss it hands on
// one notice once the next generation stands, or another one is lost; nothing more comes of the
// newcomer that is started in its place. Where the generation does not come, all go back or the run
// ends, each notice that was held back is handed on as it is. Thread-safe; the clock outlives it.
class Recoveries final : public Sink {
 public:
  Recoveries(std::shared_ptr<Sink> behind, const Clock& clock);

  void take(const Record& record) noexcept override;
  // To be called now and then: what has been held back for too long is handed on.
  void tell_late() noexcept;

 private:
  bool holds_back(const Notice& notice);
  bool hold(const Notice& notice);
  bool fold_into_one(const std::string& stands);
  bool are_expected(const std::vector<std::int32_t>& workers) const;
  void forget(const std::vector<std::int32_t>& workers);
  void tell_held();

  const std::shared_ptr<Sink> behind_;
  const Clock& clock_;
  std::mutex mutex_;
  // Guarded by mutex_:
  std::vector<Notice> held_;  // a loss, and who is started in its place
  TimePoint held_since_{};
  std::set<std::int32_t> expected_;  // were started for those of whom one line told
};

}  // namespace muster::observe
