#pragma once
// The log of a process that another one watches: information goes, with the time, to standard
// output, which a launcher keeps in a file; warnings and errors go to standard error, which it also
// shows.

#include "muster/base/log.h"

namespace muster {

Logger create_split_logger();

}  // namespace muster
