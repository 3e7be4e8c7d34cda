#pragma once
// An event file for TensorBoard: the metrics of every step and evaluation as scalars under their
// own names. Every start of a run has a file of its own, as TensorBoard expects it, and one that
// resumes says from which step on the earlier ones no longer hold; `tensorboard --logdir runs`
// shows all of them.

#include <functional>
#include <memory>

#include "muster/base/clock.h"
#include "muster/base/files.h"
#include "muster/observe/hub.h"

namespace muster::observe {

// "events.out.tfevents.<seconds>.muster"; `now`: when the run starts, or goes on.
std::string tensorboard_file(WallTime now);

// Writes a new file in `folder`, named by the first second from now on that no other start took.
// It blocks on the disk: put it behind a QueuedSink. What cannot be written waits, and `on_error`
// is told of it, as by a LineFile (line_file.h).
Result<std::shared_ptr<Sink>> create_tensorboard_sink(Files& files, const Path& folder,
                                                      const Clock& clock,
                                                      std::function<void(const Error&)> on_error);

}  // namespace muster::observe
