#include "muster/app/debug/live_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "muster/base/phases.h"

namespace muster::app {
namespace {

using nlohmann::json;

LiveWorker live_worker_of(const json& object) {
  LiveWorker worker;
  object.at("worker").get_to(worker.worker);
  object.at("rank").get_to(worker.rank);
  object.at("host").get_to(worker.host);
  object.at("pid").get_to(worker.pid);
  object.at("step").get_to(worker.step);
  object.at("phase").get_to(worker.phase);
  object.at("operation").get_to(worker.operation);
  object.at("resident_bytes").get_to(worker.resident);
  for (std::size_t i = 0; i < kActivities; ++i)
    object.at("shares").at(std::string(kActivityNames[i])).get_to(worker.shares[i]);
  return worker;
}

}  // namespace

Activity activity_of(const cluster::Progress& progress) {
  if (progress.phase == kWaitingForData) return Activity::kData;
  if (progress.phase == kUpdating) return Activity::kUpdate;
  if (progress.phase != kComputingGradients) return Activity::kOther;
  const bool waits =
      !progress.operation.empty() && progress.operation.find(" of slice ") == std::string::npos;
  return waits ? Activity::kWait : Activity::kCompute;
}

std::string to_json(const std::vector<LiveWorker>& workers) {
  json all = json::array();
  for (const LiveWorker& worker : workers) {
    json shares = json::object();
    for (std::size_t i = 0; i < kActivities; ++i)
      shares[std::string(kActivityNames[i])] = worker.shares[i];
    all.push_back({{"worker", worker.worker},
                   {"rank", worker.rank},
                   {"host", worker.host},
                   {"pid", worker.pid},
                   {"step", worker.step},
                   {"phase", worker.phase},
                   {"operation", worker.operation},
                   {"shares", std::move(shares)},
                   {"resident_bytes", worker.resident}});
  }
  return json{{"workers", std::move(all)}}.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<std::vector<LiveWorker>> live_workers_from_json(std::string_view text) {
  try {
    const json object = json::parse(text);
    std::vector<LiveWorker> workers;
    for (const json& one : object.at("workers")) workers.push_back(live_worker_of(one));
    return workers;
  } catch (const json::exception& exception) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("[live] live.json is not readable: {}", exception.what()));
  }
}

}  // namespace muster::app
