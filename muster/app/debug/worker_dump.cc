#include "muster/app/debug/worker_dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "muster/base/units.h"

namespace muster::app {
namespace {

using nlohmann::json;

Duration duration_of(const json& value) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value.get<double>()));
}

json to_json(const comm::FlightCall& call) {
  json object = {{"number", call.number},
                 {"op", call.op},
                 {"label", call.label},
                 {"age", to_seconds(call.age)},
                 {"failed", call.failed}};
  if (call.took) object["took"] = to_seconds(*call.took);
  return object;
}

comm::FlightCall call_of(const json& object) {
  comm::FlightCall call{.number = object.at("number"),
                        .op = object.at("op"),
                        .label = object.at("label"),
                        .age = duration_of(object.at("age")),
                        .took = std::nullopt,
                        .failed = object.at("failed")};
  if (object.contains("took")) call.took = duration_of(object.at("took"));
  return call;
}

}  // namespace

comm::FlightRecord flight_record(Rank rank, std::int32_t size,
                                 const std::vector<comm::FlightEntry>& entries, TimePoint now) {
  comm::FlightRecord record{.rank = rank, .size = size, .generation = Generation{0}, .calls = {}};
  for (const comm::FlightEntry& entry : entries) {
    if (!entry.number) continue;
    if (entry.generation != record.generation) record.calls.clear();
    record.generation = entry.generation;
    comm::FlightCall call{.number = *entry.number,
                          .op = entry.op,
                          .label = entry.label,
                          .age = std::max(now - entry.submitted, Duration::zero()),
                          .took = std::nullopt,
                          .failed = entry.error.has_value()};
    if (entry.ended) call.took = *entry.ended - entry.submitted;
    record.calls.push_back(std::move(call));
  }
  return record;
}

std::string encode(const WorkerDump& dump) {
  json calls = json::array();
  for (const comm::FlightCall& call : dump.record.calls) calls.push_back(to_json(call));
  return json{{"rank", to_int(dump.record.rank)},
              {"size", dump.record.size},
              {"generation", to_int(dump.record.generation)},
              {"calls", std::move(calls)},
              {"stacks", dump.stacks}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<WorkerDump> decode_dump(std::string_view text) {
  try {
    const json object = json::parse(text);
    WorkerDump dump;
    dump.record.rank = Rank{object.at("rank").get<std::int32_t>()};
    dump.record.size = object.at("size");
    dump.record.generation = Generation{object.at("generation").get<std::uint64_t>()};
    for (const json& call : object.at("calls")) dump.record.calls.push_back(call_of(call));
    dump.stacks = object.at("stacks");
    return dump;
  } catch (const json::exception& exception) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("[debug] a worker's dump is not readable: {}", exception.what()));
  }
}

}  // namespace muster::app
