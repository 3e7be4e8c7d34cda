#pragma once
// Where every thread of this process stands, for a person who asks a job that hangs.

#include <string>

#include "muster/base/clock.h"

namespace muster {

// One paragraph a thread: its name and number, then its frames, innermost first. Threads that
// have not answered after `patience` are named with their state and innermost frame alone, where
// the system tells it: whoever asks waits for all of them. Interrupts the system calls of the
// others, which go on by themselves. Any thread; one call at a time runs. Frames of the program
// itself have names where it was linked with -rdynamic, else addresses.
std::string describe_stacks(Duration patience = std::chrono::milliseconds(500));

}  // namespace muster
