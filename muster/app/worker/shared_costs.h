#pragma once
// What the blocks of a pipeline's model cost, alike on every rank: measurements differ, and the
// model is cut by them. Whoever comes anew cuts it where the others have.

#include <functional>
#include <vector>

#include "muster/app/worker/session.h"
#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/job/spec.h"

namespace muster::app {

// The first rank measures, unless one before it has; the job's store keeps what counts. Every rank
// calls it before it trains, and goes on in the next generation where one dies meanwhile.
Result<std::vector<Duration>> share_costs(
    Session& session, const job::JobSpec& job,
    const std::function<Result<std::vector<Duration>>()>& measure);

}  // namespace muster::app
