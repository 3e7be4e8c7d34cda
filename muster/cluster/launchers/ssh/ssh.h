#pragma once
// Other hosts by OpenSSH's `ssh`: names, users, ports, keys and ways through others are those of
// its configuration (ssh_config(5)).

#include <memory>

#include "muster/cluster/remote_shell.h"

namespace muster::cluster {

std::unique_ptr<RemoteShell> create_ssh();

}  // namespace muster::cluster
