#pragma once
// What control messages have in common, as JSON and back; readers throw where it is none. Pure.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "muster/cluster/messages.h"

namespace muster::cluster {

using Json = nlohmann::json;

template <class T>
void read(const Json& json, const char* field, T& into) {
  json.at(field).get_to(into);
}

// As it is where a muster of another commit does not send it: see kControlVersion.
template <class T>
void read_if_sent(const Json& json, const char* field, T& into) {
  if (json.contains(field)) read(json, field, into);
}

template <class Enum>
Enum checked_enum(const Json& json, Enum last) {
  const auto value = json.get<std::uint64_t>();
  if (value > static_cast<std::uint64_t>(last)) throw std::out_of_range("enumerator");
  return static_cast<Enum>(value);
}

Json binary(const Bytes& bytes);
Bytes bytes(const Json& json);

Json to_json(const WorkerInfo& info);
WorkerInfo worker_info(const Json& json);
Json to_json(const Progress& progress);
Progress progress(const Json& json);
Json to_json(const Error& error);
Error error(const Json& json);
Json to_json(const ProcessEnd& end);
ProcessEnd process_end(const Json& json);
Json to_json(const GivenJob& job);
GivenJob given_job(const Json& json);
Json nanoseconds(TimePoint time);
TimePoint time_point(const Json& json);

// As the field "wall" of a message, or without one.
void write_wall(Json& json, const std::optional<WallReading>& wall);
std::optional<WallReading> read_wall(const Json& json);

}  // namespace muster::cluster
