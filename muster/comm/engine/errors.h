#pragma once
// The errors of communication, worded once.

#include <vector>

#include "muster/comm/communicator.h"

namespace muster::comm {

// "gradients/2, all_reduce sum F32 [1000]": what an operation was for.
std::string subject(const Op& op, const OpOptions& options);

// `missing`: those who did not reach the operation, or did not go on in it; the first is the
// culprit. None, or kNoRank: nobody knows who.
Error timeout_error(const Op& op, const OpOptions& options, const Group& group,
                    const std::vector<Rank>& missing);

// Same culprit or `from` itself; for what `from` told us before it gave up.
Error told_by(Rank from, const Error& why);

// What submit() refuses: shapes, dtypes, ranks and reductions that cannot be. Ok otherwise.
Status check_op(const Op& op, const Group& group);

}  // namespace muster::comm
