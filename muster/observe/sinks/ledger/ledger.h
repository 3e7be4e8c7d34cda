#pragma once
// ledger.jsonl: which samples every committed step consumed, append-only. Steps that follow each
// other in one epoch and one generation share a line:
//   {"generation":1,"steps":[1,235],"epoch":0,"positions":[0,60000],"roll":123,"hash":"9f…"}
// and each start of the run has one, {"started_after":0,"epoch_size":60000,"batch":256,"slices":8,
// "hash":"…"}, which takes back the steps after it; so does where the workers went back to an
// earlier step, {"generation":2,"back_to":200,"hash":"…"}. Where lines were lost, as on a disk that
// was full for long, {"unrecorded":[501,899],"hash":"…"} takes back the steps from its first on and
// says that the training stood at its last when the next line was written. `roll` is the sum of the
// steps' roll calls (data/roll_call.h). `hash` is the begin of the SHA-256 of the hash before it
// and the line without it: no line can be changed, removed or put in without breaking the chain.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "muster/base/clock.h"
#include "muster/base/files.h"
#include "muster/observe/hub.h"

namespace muster::observe {

// Appends to `path`. Steps that follow each other closely share a line: one is held back only
// within a second of the last line, and never beyond a checkpoint. A launcher that is killed takes
// with it what is held back. It blocks on the disk: put it behind a QueuedSink. What cannot be
// written waits, and `on_error` is told of it, as by a LineFile (line_file.h).
Result<std::shared_ptr<Sink>> create_ledger_sink(Files& files, const Path& path, Clock& clock,
                                                 std::function<void(const Error&)> on_error);

// The hash of a line: `body` is the line up to its `,"hash":`.
std::string ledger_hash(std::string_view before, std::string_view body);

}  // namespace muster::observe
