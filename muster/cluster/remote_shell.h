#pragma once
// How commands are run on other hosts. Leaves below launchers/ implement it. Stateless; any thread.

#include <string>
#include <string_view>
#include <vector>

#include "muster/base/process.h"

namespace muster::cluster {

class RemoteShell {
 public:
  virtual ~RemoteShell() = default;
  virtual std::string name() const = 0;  // for a person: "ssh"

  // The process here that stands for `script`, in words of sh, on `host`. What it reads and writes
  // is the script's, and so is its exit status, but for 255, which is its own. It asks a person
  // nothing, and runs nothing on a host that is not the one known by this name.
  virtual ProcessSpec process_for(const std::string& host, std::string_view script,
                                  std::string input) const = 0;

  // Why the host was not reached, from what such a process said as it ended with 255, and what to
  // do: one line or more.
  virtual std::string explain(const std::string& host,
                              const std::vector<std::string>& said) const = 0;
};

}  // namespace muster::cluster
