#include "muster/app/debug/worker_dump.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "muster/base/units.h"

namespace muster::app {
namespace {

using nlohmann::json;

Duration duration_of(const json& value) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value.get<double>()));
}

constexpr std::string_view kOverConnections = "connections";

json numbers_of(const std::vector<Rank>& ranks) {
  json numbers = json::array();
  for (const Rank rank : ranks) numbers.push_back(to_int(rank));
  return numbers;
}

std::vector<Rank> ranks_of(const json& numbers) {
  std::vector<Rank> ranks;
  for (const json& number : numbers) ranks.push_back(Rank{number.get<std::int32_t>()});
  return ranks;
}

json to_json(const comm::Awaited& awaited) {
  const bool by_memory = awaited.over == comm::Awaited::Over::kMemory;
  return {{"over", by_memory ? "memory" : kOverConnections}, {"ranks", numbers_of(awaited.ranks)}};
}

comm::Awaited awaited_of(const json& object) {
  using enum comm::Awaited::Over;
  return {object.at("over") == kOverConnections ? kConnections : kMemory,
          ranks_of(object.at("ranks"))};
}

json to_json(const comm::FlightCall& call) {
  json object = {{"number", call.number},
                 {"op", call.op},
                 {"label", call.label},
                 {"age", to_seconds(call.age)},
                 {"failed", call.failed}};
  if (call.took) object["took"] = to_seconds(*call.took);
  if (call.waited) object["waited"] = to_seconds(*call.waited);
  if (call.waits_for) object["waits_for"] = to_json(*call.waits_for);
  return object;
}

json to_json(const comm::FlightMessage& message) {
  return {{"sends", message.sends},
          {"peer", to_int(message.peer)},
          {"tag", message.tag},
          {"part", message.part},
          {"call", to_json(message.call)}};
}

json to_json(const comm::FlightPass& pass) {
  return {{"what", pass.what}, {"age", to_seconds(pass.age)}, {"waits", pass.waits}};
}

json to_json(const comm::FlightPart& part);  // has calls of its own

template <class Value>
json to_json(const std::vector<Value>& values) {
  json all = json::array();
  for (const Value& value : values) all.push_back(to_json(value));
  return all;
}

json to_json(const comm::FlightPart& part) {
  return {{"id", part.id}, {"members", numbers_of(part.members)}, {"calls", to_json(part.calls)}};
}

comm::FlightCall call_of(const json& object) {
  comm::FlightCall call{.number = object.at("number"),
                        .op = object.at("op"),
                        .label = object.at("label"),
                        .age = duration_of(object.at("age")),
                        .took = std::nullopt,
                        .failed = object.at("failed"),
                        .waited = std::nullopt,
                        .waits_for = std::nullopt};
  if (object.contains("took")) call.took = duration_of(object.at("took"));
  if (object.contains("waited")) call.waited = duration_of(object.at("waited"));
  if (object.contains("waits_for")) call.waits_for = awaited_of(object.at("waits_for"));
  return call;
}

comm::FlightMessage message_of(const json& object) {
  return {.sends = object.at("sends"),
          .peer = Rank{object.at("peer").get<std::int32_t>()},
          .tag = object.at("tag"),
          .part = object.at("part"),
          .call = call_of(object.at("call"))};
}

comm::FlightPart part_of(const json& object) {
  comm::FlightPart part{
      .id = object.at("id"), .members = ranks_of(object.at("members")), .calls = {}};
  for (const json& call : object.at("calls")) part.calls.push_back(call_of(call));
  return part;
}

comm::FlightPass pass_of(const json& object) {
  return {
      .what = object.at("what"), .age = duration_of(object.at("age")), .waits = object.at("waits")};
}

// A dump of an older muster, in a run's folder, lacks some.
json list_in(const json& object, const char* name) { return object.value(name, json::array()); }

}  // namespace

std::string encode(const WorkerDump& dump) {
  return json{{"rank", to_int(dump.record.rank)},
              {"size", dump.record.size},
              {"generation", to_int(dump.record.generation)},
              {"calls", to_json(dump.record.calls)},
              {"messages", to_json(dump.record.messages)},
              {"parts", to_json(dump.record.parts)},
              {"passes", to_json(dump.record.passes)},
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
    for (const json& message : list_in(object, "messages"))
      dump.record.messages.push_back(message_of(message));
    for (const json& part : list_in(object, "parts")) dump.record.parts.push_back(part_of(part));
    for (const json& pass : list_in(object, "passes")) dump.record.passes.push_back(pass_of(pass));
    dump.stacks = object.at("stacks");
    return dump;
  } catch (const json::exception& exception) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("[debug] a worker's dump is not readable: {}", exception.what()));
  }
}

}  // namespace muster::app
