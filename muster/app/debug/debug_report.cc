#include "muster/app/debug/debug_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "muster/base/units.h"
#include "muster/comm/wrap/wait_graph.h"

namespace muster::app {
namespace {

using nlohmann::json;

std::vector<comm::FlightRecord> records_of(const DebugReport& report) {
  std::vector<comm::FlightRecord> records;
  for (const DebugWorker& worker : report.workers)
    if (worker.dump) records.push_back(worker.dump->record);
  return records;
}

// A collective that goes on for longer than most steps take waits for somebody.
constexpr Duration kHeldUp = std::chrono::seconds(1);

comm::HeldUp held_up(const DebugReport& report) {
  comm::HeldUp found = comm::find_held_up(records_of(report));
  if (report.occasion != kAskedFor) return found;
  std::erase_if(found.calls, [](const auto& finding) { return finding.call.age < kHeldUp; });
  std::erase_if(found.waits, [](const auto& each) { return comm::longest_wait(each) < kHeldUp; });
  return found;
}

Generation newest_generation(const std::vector<comm::FlightRecord>& records) {
  Generation newest{0};
  for (const comm::FlightRecord& record : records) newest = std::max(newest, record.generation);
  return newest;
}

// Ranks whose stacks show why the others wait; where all are in one operation, those of all: where
// in it each of them is.
std::set<Rank> shown_ranks(const DebugReport& report) {
  std::set<Rank> ranks;
  const comm::HeldUp found = held_up(report);
  for (const comm::FlightFinding& finding : found.calls) {
    using enum comm::FlightFinding::Kind;
    ranks.insert(finding.ranks.begin(), finding.ranks.end());
    if (finding.kind == kStandsStill || finding.kind == kNoProgress)
      ranks.insert(finding.waiting.begin(), finding.waiting.end());
  }
  for (const comm::WaitFinding& finding : found.waits)
    ranks.insert(finding.ranks.begin(), finding.ranks.end());
  return ranks;
}

// Ranks change with every generation, the number of a worker does not: it is the one that status,
// top and logs have too.
comm::RankWording names_of(const DebugReport& report) {
  const auto generation_of = [](const DebugWorker& worker) {
    return worker.dump ? worker.dump->record.generation : Generation{0};
  };
  std::map<Rank, std::pair<Generation, std::int32_t>> newest;
  for (const DebugWorker& worker : report.workers) {
    if (worker.rank == kNoRank) continue;
    auto& known = newest.try_emplace(worker.rank, Generation{0}, worker.worker).first->second;
    if (known.first < generation_of(worker)) known = {generation_of(worker), worker.worker};
  }
  std::map<Rank, std::int32_t> workers;
  for (const auto& [rank, known] : newest) workers.emplace(rank, known.second);
  return {"worker", std::move(workers)};
}

std::string who(const DebugWorker& worker) {
  const std::string rank =
      worker.dump ? fmt::format("rank {}, ", to_int(worker.dump->record.rank)) : "";
  return fmt::format("worker {} ({}{})", worker.worker, rank, place_of(worker));
}

std::string unfinished(const comm::FlightCall& call, Duration time) {
  return fmt::format("{} {}{}", call.failed ? "failed after" : "waits", format_duration(time),
                     call.failed ? " " : " in ") +
         comm::describe(call);
}

// Of a part or between two ranks: under way beside a pass they hold nobody up.
const comm::FlightCall* first_awaited(const comm::FlightRecord& record) {
  for (const comm::FlightPart& part : record.parts)
    for (const comm::FlightCall& call : part.calls)
      if (comm::is_awaited(call)) return &call;
  for (const comm::FlightMessage& message : record.messages)
    if (comm::is_awaited(message.call)) return &message.call;
  return nullptr;
}

std::string last_deed(const DebugWorker& worker) {
  if (!worker.dump && worker.waits_to_begin) return "waits for others to join";
  if (!worker.dump) return (worker.starting ? "starting; " : "no answer; ") + worker.state;
  const auto& calls = worker.dump->record.calls;
  const auto first = std::ranges::find_if(calls, comm::is_unfinished);
  if (first != calls.end()) return unfinished(*first, first->took.value_or(first->age));
  if (const comm::FlightCall* awaited = first_awaited(worker.dump->record))
    return unfinished(*awaited, *awaited->waited);
  if (calls.empty()) return "no operation yet";
  return fmt::format("{} ago called {}", format_duration(calls.back().age),
                     comm::describe(calls.back()));
}

json to_json(const DebugWorker& worker) {
  json object = {{"worker", worker.worker}, {"host", worker.host},
                 {"pid", worker.pid},       {"step", worker.step},
                 {"phase", worker.phase},   {"operation", worker.operation},
                 {"state", worker.state}};
  if (worker.waits_to_begin) object["waits_to_begin"] = true;
  if (worker.starting) object["starting"] = true;
  if (worker.rank != kNoRank) object["rank"] = to_int(worker.rank);
  if (worker.dump) object["dump"] = json::parse(encode(*worker.dump));
  return object;
}

Result<DebugWorker> worker_of(const json& object) {
  DebugWorker worker{.worker = object.at("worker"),
                     .host = object.at("host"),
                     .pid = object.at("pid"),
                     .step = object.at("step"),
                     .phase = object.at("phase"),
                     .operation = object.value("operation", ""),
                     .state = object.at("state"),
                     .dump = std::nullopt,
                     .waits_to_begin = object.value("waits_to_begin", false),
                     .rank = Rank{object.value("rank", to_int(kNoRank))},
                     .starting = object.value("starting", false)};
  if (object.contains("dump")) {
    MUSTER_ASSIGN(worker.dump, decode_dump(object.at("dump").dump()));
    worker.rank = worker.dump->record.rank;  // a file of an older muster has it only there
  }
  return worker;
}

}  // namespace

std::string place_of(const DebugWorker& worker) {
  if (worker.pid == 0) return "not heard of yet";
  return fmt::format("pid {}{}", worker.pid, worker.host.empty() ? "" : " on " + worker.host);
}

DebugReport make_debug_report(const std::vector<cluster::WorkerState>& states, WallTime now,
                              std::string occasion) {
  DebugReport report{.time = format_utc(now), .occasion = std::move(occasion), .workers = {}};
  for (const cluster::WorkerState& state : states) {
    DebugWorker worker{.worker = to_int(state.worker),
                       .host = state.host,
                       .pid = state.pid,
                       .step = to_int(state.progress.step),
                       .phase = state.progress.phase,
                       .operation = state.progress.operation,
                       .state = {},
                       .dump = std::nullopt,
                       .waits_to_begin = state.waits_to_begin,
                       .rank = state.rank,
                       .starting = state.starting};
    if (state.dump) {
      const std::string_view text(reinterpret_cast<const char*>(state.dump->data()),
                                  state.dump->size());
      if (auto dump = decode_dump(text)) worker.dump = std::move(*dump);
    }
    if (worker.dump)
      worker.rank = worker.dump->record.rank;
    else
      worker.state = state.process;
    report.workers.push_back(std::move(worker));
  }
  return report;
}

std::vector<std::string> conclusions(const DebugReport& report) {
  const Generation newest = newest_generation(records_of(report));
  std::vector<std::string> lines;
  const comm::RankWording names = names_of(report);
  const comm::HeldUp found = held_up(report);
  lines.reserve(found.calls.size() + found.waits.size());
  for (const comm::FlightFinding& finding : found.calls)
    lines.push_back(describe(finding, newest, names));
  for (const comm::WaitFinding& finding : found.waits) lines.push_back(describe(finding, names));
  for (const DebugWorker& worker : report.workers) {
    if (worker.dump || worker.waits_to_begin || worker.starting) continue;
    const cluster::Progress last{Step{worker.step}, worker.phase, worker.operation};
    lines.push_back(fmt::format("{} does not answer: {}; it was {}", who(worker), worker.state,
                                cluster::describe(last)));
  }
  return lines;
}

std::string to_text(const DebugReport& report, bool all_stacks) {
  std::string text;
  for (const std::string& line : conclusions(report)) text += line + "\n";
  if (text.empty()) text = "no operation is held up\n";
  for (const DebugWorker& worker : report.workers) {
    text += fmt::format("  {}: step {}, {}; {}\n", who(worker), worker.step,
                        worker.phase.empty() ? "not begun" : worker.phase, last_deed(worker));
  }
  const std::set<Rank> shown = shown_ranks(report);
  for (const DebugWorker& worker : report.workers) {
    if (!worker.dump || worker.dump->stacks.empty()) continue;
    if (!all_stacks && !shown.contains(worker.dump->record.rank)) continue;
    text += fmt::format("\nstacks of {}:\n{}", who(worker), worker.dump->stacks);
  }
  return text;
}

std::string to_json(const DebugReport& report) {
  json workers = json::array();
  for (const DebugWorker& worker : report.workers) workers.push_back(to_json(worker));
  return json{{"time", report.time},
              {"occasion", report.occasion},
              {"conclusions", conclusions(report)},
              {"workers", std::move(workers)}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<DebugReport> debug_report_from_json(std::string_view text) {
  try {
    const json object = json::parse(text);
    DebugReport report;
    report.time = object.at("time");
    report.occasion = object.at("occasion");
    for (const json& entry : object.at("workers")) {
      MUSTER_ASSIGN(auto worker, worker_of(entry));
      report.workers.push_back(std::move(worker));
    }
    return report;
  } catch (const json::exception& exception) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("[debug] debug.json is not readable: {}", exception.what()));
  }
}

}  // namespace muster::app
