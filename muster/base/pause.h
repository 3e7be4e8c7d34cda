#pragma once
// Lets time pass, and waits for nothing else. For threads that may block.

#include "muster/base/clock.h"

namespace muster {

void pause(Clock& clock, Duration duration);

}  // namespace muster
