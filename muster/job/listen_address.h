#pragma once
// host:port as `listen` of several groups says it, as far as no network is needed to judge. Pure.

#include <string>
#include <string_view>

namespace muster::job {

bool is_port(std::string_view text);

// What is wrong with the number of an address such as 999.1.1.1; empty where nothing is, or `host`
// is a name or an address of IPv6.
std::string wrong_number(std::string_view host);

}  // namespace muster::job
