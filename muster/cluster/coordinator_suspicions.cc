// Workers that cannot work together.
#include <fmt/format.h>

#include <algorithm>

#include "muster/base/phases.h"
#include "muster/base/units.h"
#include "muster/cluster/coordinator.h"

namespace muster::cluster {

void CoordinatorState::suspect(const Worker& worker, const Suspect& message, TimePoint now) {
  if (message.generation != generation_) return;
  const auto rank = static_cast<std::size_t>(to_int(message.why.peer));
  const auto accused = rank < current_.size() ? std::optional(current_[rank]) : std::nullopt;
  log_->debug("[cluster/membership] {} suspects {}: {}", describe(worker.candidate.info),
              accused ? fmt::format("worker {}", *accused) : "nobody", message.why.message);
  if (accused && is_gone(*accused)) return;  // as is known, and its number may be another's by now
  suspicions_.accuse(worker.candidate.info.worker, accused, now);
  if (!accused) return;
  complaints_[*accused] = message.why;
  if (message.why.code != ErrorCode::kTimeout) return;
  tell([](const CoordinatorEvents& events) {
    if (events.on_no_answer) events.on_no_answer();
  });
}

// The member of the present generation, whoever may have come in its place.
bool CoordinatorState::is_gone(std::int32_t member) const {
  return std::ranges::count(replaced_, member) > 0 ||
         std::ranges::any_of(workers_, [member](const auto& entry) {
           const Candidate& candidate = entry.second.candidate;
           return candidate.info.worker == member && candidate.lost;
         });
}

// A disk or a store that stands still for a while is no reason to do without a worker, whose place
// another would take with the same data to wait for. What waits for ever ends with its time.
bool CoordinatorState::only_waits_for_data(const Worker& worker, TimePoint now) const {
  const Duration waited = now - worker.at_it_since;
  if (worker.progress.phase != kWaitingForData || waited >= options_.data_patience) return false;
  log_->warn(
      "[cluster/membership] {} has waited {:.1f} s for its data, and the others for it; it is "
      "given {:.0f} s (communication.timeout)",
      describe(worker.candidate.info), to_seconds(waited), to_seconds(options_.data_patience));
  return true;
}

void CoordinatorState::settle_suspicions(TimePoint now) {
  if (now < suspicions_.due()) return;
  again_ = true;
  const auto victim = suspicions_.rule(current_);
  if (!victim) return;
  Worker& worker = *find_worker(*victim);
  if (only_waits_for_data(worker, now)) return;
  worker.candidate.cut_off = true;
  const Error& complaint = complaints_[*victim];
  const Error why =
      fail(ErrorCode::kUnavailable,
           fmt::format("[cluster/membership] {} lives, but others in generation {} cannot work "
                       "with it, because its link is cut or it hangs: {}",
                       describe(worker.candidate.info), to_int(generation_), complaint.message));
  // Of a link that never was, as behind a firewall, the others have nothing to tell later on.
  if (complaint.code == ErrorCode::kUnavailable) log_->warn("{}", why.message);
  lose(worker, why);
}

}  // namespace muster::cluster
