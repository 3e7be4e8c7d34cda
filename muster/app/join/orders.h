#pragma once
// What the launcher of a job tells `muster worker --from-input`, which it has started on another
// host: one line, through that one's standard input, where nobody else can read it.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "muster/app/join/join.h"

namespace muster::app {

std::string to_line(const Orders& orders);  // with its end

// kInvalid: no such line.
Result<Orders> read_orders(std::string_view line);

}  // namespace muster::app
