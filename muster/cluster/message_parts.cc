#include "muster/cluster/message_parts.h"

namespace muster::cluster {

Json binary(const Bytes& bytes) {
  const auto* begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return Json::binary(Json::binary_t::container_type(begin, begin + bytes.size()));
}

Bytes bytes(const Json& json) {
  const auto& from = json.get_binary();
  const auto* begin = reinterpret_cast<const std::byte*>(from.data());
  return Bytes(begin, begin + from.size());
}

Json to_json(const WorkerInfo& info) {
  return {{"worker", info.worker},      {"host", info.host},
          {"boot_id", info.boot_id},    {"pid", info.pid},
          {"door", info.door},          {"can_lead", info.can_lead},
          {"has_state", info.has_state}};
}

WorkerInfo worker_info(const Json& json) {
  WorkerInfo info;
  read(json, "worker", info.worker);
  read(json, "host", info.host);
  read(json, "pid", info.pid);
  read_if_sent(json, "boot_id", info.boot_id);
  read_if_sent(json, "door", info.door);
  read_if_sent(json, "can_lead", info.can_lead);
  read_if_sent(json, "has_state", info.has_state);
  return info;
}

Json to_json(const Progress& progress) {
  return {{"step", to_int(progress.step)},
          {"phase", progress.phase},
          {"operation", progress.operation},
          {"resident", progress.resident}};
}

Progress progress(const Json& json) {
  return {Step{json.at("step").get<std::int64_t>()}, json.at("phase").get<std::string>(),
          json.at("operation").get<std::string>(), json.at("resident").get<std::uint64_t>()};
}

Json to_json(const Error& error) {
  return {{"code", static_cast<std::uint8_t>(error.code)},
          {"message", error.message},
          {"peer", to_int(error.peer)}};
}

Error error(const Json& json) {
  return {checked_enum(json.at("code"), ErrorCode::kInternal),
          json.at("message").get<std::string>(), Rank{json.at("peer").get<std::int32_t>()}};
}

Json to_json(const ProcessEnd& end) {
  Json json = {{"peak_memory", end.peak_memory}};
  if (end.exit_status) json["exit_status"] = *end.exit_status;
  if (end.signal) json["signal"] = *end.signal;
  return json;
}

ProcessEnd process_end(const Json& json) {
  ProcessEnd end;
  read(json, "peak_memory", end.peak_memory);
  if (json.contains("exit_status")) end.exit_status = json.at("exit_status").get<int>();
  if (json.contains("signal")) end.signal = json.at("signal").get<int>();
  return end;
}

Json nanoseconds(TimePoint time) { return time.time_since_epoch().count(); }
TimePoint time_point(const Json& json) { return TimePoint(Duration(json.get<std::int64_t>())); }

void write_wall(Json& json, const std::optional<WallReading>& wall) {
  if (!wall) return;
  json["wall"] = {{"at", wall->at.time_since_epoch().count()},
                  {"on_the_way", wall->on_the_way.count()}};
}

std::optional<WallReading> read_wall(const Json& json) {
  if (!json.contains("wall")) return std::nullopt;
  const Json& wall = json.at("wall");
  return WallReading{WallTime(Duration(wall.at("at").get<std::int64_t>())),
                     Duration(wall.at("on_the_way").get<std::int64_t>())};
}

Json to_json(const GivenJob& job) {
  return {{"file", job.file}, {"values", job.values}, {"mistake", job.mistake}};
}

GivenJob given_job(const Json& json) {
  GivenJob job;
  read_if_sent(json, "file", job.file);
  read_if_sent(json, "values", job.values);
  read_if_sent(json, "mistake", job.mistake);
  return job;
}

}  // namespace muster::cluster
