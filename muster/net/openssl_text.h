#pragma once
// OpenSSL's error queue in words.

#include <string>

namespace muster::net {

// The oldest error of this thread's queue, for a person; empties the queue.
std::string take_openssl_error();

}  // namespace muster::net
