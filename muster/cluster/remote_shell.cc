#include "muster/cluster/remote_shell.h"

namespace muster::cluster {

std::string quoted_for_sh(std::string_view word) {
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace muster::cluster
