#pragma once
// What there is to be reached: the rate of floating-point operations in which libtorch multiplies
// large matrices here.

#include <c10/core/Device.h>

#include "muster/base/clock.h"
#include "muster/models/precision.h"

namespace muster::models {

// In operations a second, the best of some products; takes about 20 ms, or two products. On the
// processor it is that of the calling thread, with as many threads as libtorch may use in it.
double measure_flop_rate(Precision precision, c10::Device device, const Clock& clock);

}  // namespace muster::models
