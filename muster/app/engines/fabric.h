#pragma once
// The fast fabrics of this host, by which an MPI reaches other hosts without the kernel's TCP:
// InfiniBand, RoCE, Omni-Path, Slingshot, as Linux shows them below /sys/class.

#include <string>
#include <vector>

#include "muster/base/files.h"

namespace muster::app {

struct FabricPort {
  std::string fabric;  // "InfiniBand"
  std::string name;    // "mlx5_0 port 1"
  std::string state;   // "ACTIVE", "DOWN"
  std::string rate;    // "100 Gb/sec (4X EDR)"; empty: the system does not say

  bool is_active() const { return state == "ACTIVE"; }
};
std::string describe(const FabricPort& port);  // "InfiniBand mlx5_0 port 1 (100 Gb/sec (4X EDR))"

// In the order of their names; none where there is no such device. Left out: what only plays one
// over Ethernet (rxe, siw), and iWARP, which UCX does not speak.
std::vector<FabricPort> fabric_ports(Files& files);

}  // namespace muster::app
