#pragma once
// A trace of all workers in the Trace Event Format, as ui.perfetto.dev and chrome://tracing open
// it: a process for each worker, in it a track for its steps, their phases, each lane, and
// operations. One event a line, so that a reader at any time, and after any crash, finds events
// that are whole; the array is closed when the sink goes.
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU

#include <functional>
#include <memory>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/files.h"
#include "muster/observe/hub.h"

namespace muster::observe {

// "trace-20261125T184500Z.json": each start of a run has one of its own.
std::string trace_file(WallTime now);

// Writes spans to `path`, with times since now. It blocks on the disk: put it behind a QueuedSink,
// whose warning of what was left out goes to `on_error`. What cannot be written waits, and
// `on_error` is told of it, as by a LineFile (line_file.h). Other records are not for it.
Result<std::shared_ptr<Sink>> create_trace_sink(Files& files, const Path& path, const Clock& clock,
                                                std::function<void(const Error&)> on_error);

}  // namespace muster::observe
