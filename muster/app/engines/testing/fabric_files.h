#pragma once
// Devices of fabrics, as Linux shows them, in a disk in memory.

#include <string>

#include "muster/testing/memory_files.h"

namespace muster::testing {

struct VerbsDevice {
  std::string name;
  std::string state = "4: ACTIVE";
  std::string link_layer = "InfiniBand";
  std::string node_type = "1: CA";
  std::string node_desc = "node7 HCA-1";
  std::string rate = "100 Gb/sec (4X EDR)";
};

// With one port. Replaces one of that name.
inline void add_verbs_device(MemoryFiles& files, const VerbsDevice& device) {
  const Path folder = Path("/sys/class/infiniband") / device.name;
  const Path port = folder / "ports" / "1";
  const auto write = [&files](const Path& file, const std::string& line) {
    static_cast<void>(write_atomically(files, file, line + "\n"));
  };
  static_cast<void>(files.create_folders(port));
  write(folder / "node_type", device.node_type);
  write(folder / "node_desc", device.node_desc);
  write(port / "state", device.state);
  write(port / "link_layer", device.link_layer);
  write(port / "rate", device.rate);
}

}  // namespace muster::testing
