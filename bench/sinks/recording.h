#pragma once
// What a run has told of its steps, and the same again for as many steps as are wanted. Values.

#include <vector>

#include "muster/base/files.h"
#include "muster/observe/event.h"

namespace muster::bench {

struct RecordedStep {
  observe::Metrics row;
  std::vector<observe::Span> spans;  // of all workers; begin: since the first of these steps began
};

struct Recording {
  observe::RunStarted started;
  std::vector<RecordedStep> steps;  // in order, none left out between them
  Duration step_time{0};            // their mean
};

// Of the steps in which a run neither begins nor ends, from its metrics.jsonl and its only trace.
// kInvalid: it has too few of them, or was not traced.
Result<Recording> read_recording(Files& files, const Path& run);

// As one worker sends them together.
using Message = std::vector<observe::Record>;

// Step `index`, from 0, of a run that `began` then: that it is committed, its row, and the spans of
// each worker. The recorded ones again and again, with steps and times that go on.
std::vector<Message> messages_of(const Recording& recording, std::int64_t index, TimePoint began);

}  // namespace muster::bench
