#pragma once
// The order in which a checkpoint reaches the disk, so that a crash at any point leaves it whole or
// absent: files with their hashes, each forced to the disk; their folder; the manifest under
// another name, forced; renamed; the folder again. A call that failed is never tried again on the
// same file: after a failed fsync the system may have dropped the bytes and say yes the second
// time.

#include "muster/base/files.h"
#include "muster/base/result.h"
#include "muster/checkpoint/checkpointer.h"

namespace muster::checkpoint {

// kInvalid for a request that no disk could take: names, sizes, devices, a state that is no JSON.
Status check_request(const SaveRequest& request);

// Writes and publishes the checkpoint in `folder`, which exists and is empty.
Result<Manifest> publish(Files& files, const Path& folder, const SaveRequest& request,
                         const CheckpointOptions& options, std::string created);

// The reverse: the manifest goes first, so that what a crash leaves is torn and known as such.
Status unpublish(Files& files, const Path& folder);

}  // namespace muster::checkpoint
