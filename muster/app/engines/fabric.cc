#include "muster/app/engines/fabric.h"

#include <fmt/format.h>

#include <string_view>

#include "muster/base/trimmed.h"

namespace muster::app {
namespace {

constexpr const char* kVerbs = "/sys/class/infiniband";  // of RoCE and Omni-Path too
constexpr const char* kSlingshot = "/sys/class/cxi";
constexpr std::string_view kSoftRoce = "rxe";        // as its node_desc
constexpr std::string_view kChannelAdapter = "1: ";  // node_type; iWARP's is 4, siw's too

std::string line_in(Files& files, const Path& file) {
  const auto text = files.read(file);
  return text ? std::string(trimmed(*text, " \n")) : std::string();
}

std::vector<std::string> names_in(Files& files, const Path& folder) {
  return files.list(folder).value_or(std::vector<std::string>());
}

// "4: ACTIVE" is ACTIVE.
std::string state_word(const std::string& state) {
  const auto colon = state.find(": ");
  return colon == std::string::npos ? state : state.substr(colon + 2);
}

std::string fabric_of(const std::string& device, const std::string& link_layer) {
  if (link_layer == "Ethernet") return "RoCE";
  if (link_layer != "InfiniBand") return {};
  return device.starts_with("hfi1") ? "Omni-Path" : link_layer;
}

void add_ports(Files& files, const std::string& device, std::vector<FabricPort>& found) {
  const Path folder = Path(kVerbs) / device;
  if (!line_in(files, folder / "node_type").starts_with(kChannelAdapter)) return;
  if (line_in(files, folder / "node_desc") == kSoftRoce) return;
  for (const std::string& number : names_in(files, folder / "ports")) {
    const Path port = folder / "ports" / number;
    std::string fabric = fabric_of(device, line_in(files, port / "link_layer"));
    if (fabric.empty()) continue;
    found.push_back({.fabric = std::move(fabric),
                     .name = fmt::format("{} port {}", device, number),
                     .state = state_word(line_in(files, port / "state")),
                     .rate = line_in(files, port / "rate")});
  }
}

}  // namespace

std::string describe(const FabricPort& port) {
  return fmt::format("{} {}{}", port.fabric, port.name,
                     port.rate.empty() ? "" : fmt::format(" ({})", port.rate));
}

std::vector<FabricPort> fabric_ports(Files& files) {
  std::vector<FabricPort> found;
  for (const std::string& device : names_in(files, kVerbs)) add_ports(files, device, found);
  for (const std::string& device : names_in(files, kSlingshot))
    found.push_back({.fabric = "Slingshot", .name = device, .state = "ACTIVE", .rate = {}});
  return found;
}

}  // namespace muster::app
