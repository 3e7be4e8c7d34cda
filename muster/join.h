#pragma once
// What a training loop of a user's own includes for muster::join() and muster::DataParallel
// (own/data_parallel.h); muster/sampler.h and muster/checkpointer.h have what else is useful there.

#include "muster/own/data_parallel.h"
