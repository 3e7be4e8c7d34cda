#pragma once
// metrics.jsonl: one JSON object a line, each written whole, so that a reader at any time, and
// after any crash, finds only complete lines (but for a last one cut short by a full disk).
//   {"type":"metrics","step":10,"epoch":0.02,"samples_seen":1280,"time":1795264496.25,"train/loss":2.1}
// Other records: "run_started", "checkpoint", "notice", "run_ended". Spans are left to traces,
// committed steps to the ledger.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/files.h"
#include "muster/observe/hub.h"

namespace muster::observe {

// Appends to `path`. It blocks on the disk: put it behind a QueuedSink. What cannot be written
// waits, and `on_error` is told of it, as by a LineFile (line_file.h).
Result<std::shared_ptr<Sink>> create_jsonl_sink(Files& files, const Path& path, const Clock& clock,
                                                std::function<void(const Error&)> on_error);

}  // namespace muster::observe
