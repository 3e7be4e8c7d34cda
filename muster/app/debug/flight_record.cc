// From what one rank's recorder holds to what others are told of it.
#include <algorithm>
#include <optional>

#include "muster/app/debug/worker_dump.h"

namespace muster::app {
namespace {

comm::FlightCall seen_at(TimePoint now, const comm::FlightEntry& entry) {
  const auto since = [&](TimePoint begin) {
    return std::max(entry.ended.value_or(now) - begin, Duration::zero());
  };
  comm::FlightCall call{.number = entry.turn,
                        .op = entry.op,
                        .label = entry.label,
                        .age = std::max(now - entry.submitted, Duration::zero()),
                        .took = std::nullopt,
                        .failed = entry.error.has_value(),
                        .waited = std::nullopt,
                        .waits_for = entry.waits_for};
  if (entry.ended) call.took = *entry.ended - entry.submitted;
  if (entry.awaited) call.waited = since(*entry.awaited);
  return call;
}

bool is_done(const comm::FlightCall& call) { return !comm::is_unfinished(call); }

// What is done says more than what was done before it.
void add(std::vector<comm::FlightCall>& calls, comm::FlightCall call) {
  if (is_done(call)) std::erase_if(calls, is_done);
  calls.push_back(std::move(call));
}

void add_message(comm::FlightRecord& record, const comm::FlightEntry& entry,
                 comm::FlightCall call) {
  comm::FlightMessage message{.sends = entry.peer->sends,
                              .peer = entry.peer->rank,
                              .tag = entry.peer->tag,
                              .part = entry.part ? entry.part->id : "",
                              .call = std::move(call)};
  const auto is_older = [&](const comm::FlightMessage& other) {
    return other.sends == message.sends && other.peer == message.peer && other.tag == message.tag &&
           other.part == message.part && is_done(other.call);
  };
  if (is_done(message.call)) std::erase_if(record.messages, is_older);
  record.messages.push_back(std::move(message));
}

void add_to_part(comm::FlightRecord& record, const comm::FlightGroup& group,
                 comm::FlightCall call) {
  auto part = std::ranges::find_if(record.parts, [&](const comm::FlightPart& known) {
    return known.id == group.id && known.members == group.members;
  });
  if (part == record.parts.end())
    part = record.parts.insert(part, {.id = group.id, .members = group.members, .calls = {}});
  add(part->calls, std::move(call));
}

comm::FlightPass seen_at(TimePoint now, const comm::RunningPass& pass,
                         const std::vector<comm::FlightEntry>& entries) {
  const auto blocks_it = [&](const comm::FlightEntry& entry) {
    const bool over = entry.ended && !entry.error;
    return !over && entry.awaited && entry.awaited_by == pass.thread &&
           *entry.awaited >= pass.since;
  };
  return {.what = pass.what,
          .age = std::max(now - pass.since, Duration::zero()),
          .waits = std::ranges::any_of(entries, blocks_it)};
}

}  // namespace

comm::FlightRecord flight_record(Rank rank, std::int32_t size,
                                 const std::vector<comm::FlightEntry>& entries,
                                 const std::vector<comm::RunningPass>& passes, TimePoint now) {
  comm::FlightRecord record{.rank = rank, .size = size};
  for (const comm::FlightEntry& entry : entries)
    record.generation = std::max(record.generation, entry.generation);
  for (const comm::FlightEntry& entry : entries) {
    if (entry.generation != record.generation) continue;
    comm::FlightCall call = seen_at(now, entry);
    if (entry.peer)
      add_message(record, entry, std::move(call));
    else if (entry.part)
      add_to_part(record, *entry.part, std::move(call));
    else
      record.calls.push_back(std::move(call));
  }
  for (const comm::RunningPass& pass : passes) record.passes.push_back(seen_at(now, pass, entries));
  return record;
}

}  // namespace muster::app
