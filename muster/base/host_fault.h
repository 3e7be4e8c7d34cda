#pragma once
// Whether an error may be one host's alone, so that other hosts, or this one a little later, get on
// where it came up: a lack of memory or threads, or a disk that cannot be read. Pure.

#include "muster/base/error.h"

namespace muster {

bool may_be_of_one_host(const Error& error);

}  // namespace muster
