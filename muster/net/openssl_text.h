#pragma once
// OpenSSL's error queue in words.

#include <string>
#include <string_view>

#include "muster/base/error.h"

namespace muster::net {

// The oldest error of this thread's queue, for a person; empties the queue.
std::string take_openssl_error();

// kInternal: "[net/tls] HKDF failed: …", with that error.
Error openssl_failed(std::string_view where, std::string_view what);

}  // namespace muster::net
