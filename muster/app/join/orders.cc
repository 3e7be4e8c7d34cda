#include "muster/app/join/orders.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace muster::app {

using Json = nlohmann::json;

std::string to_line(const Orders& orders) {
  const Json json = {{"join", net::to_string(orders.invitation.coordinator)},
                     {"credentials", orders.invitation.credentials},
                     {"worker", orders.worker},
                     {"local_worker", orders.local_worker},
                     {"local_workers", orders.local_workers},
                     {"resumes", orders.resumes},
                     {"joins", orders.joins},
                     {"needs_run_folder", orders.needs_run_folder},
                     {"environment", orders.environment}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Orders> read_orders(std::string_view line) {
  const auto wrong = [](std::string_view why) {
    return fail(ErrorCode::kInvalid,
                fmt::format("[worker] --from-input: expected what the launcher says to a worker "
                            "that it starts on another host (workers.hosts): {}",
                            why));
  };
  try {
    const Json json = Json::parse(line);
    auto address = net::parse_address(json.at("join").get<std::string>());
    if (!address) return wrong(address.error().message);
    Orders orders{.invitation = {std::move(*address), json.at("credentials").get<std::string>()},
                  .worker = json.at("worker").get<std::int32_t>(),
                  .local_worker = json.at("local_worker").get<std::int32_t>(),
                  .local_workers = json.at("local_workers").get<std::int32_t>(),
                  .resumes = json.at("resumes").get<bool>(),
                  .joins = json.at("joins").get<bool>(),
                  .needs_run_folder = json.at("needs_run_folder").get<bool>(),
                  .environment = json.at("environment").get<std::map<std::string, std::string>>()};
    const bool counts = orders.worker >= 0 && orders.local_worker >= 0 &&
                        orders.local_worker < orders.local_workers;
    return counts ? Result<Orders>(std::move(orders)) : wrong("its numbers make no sense");
  } catch (const Json::exception& problem) {
    return wrong(problem.what());
  }
}

}  // namespace muster::app
