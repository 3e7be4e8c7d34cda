#include "muster/app/launch/run_sinks.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/clock.h"
#include "muster/observe/line_file.h"
#include "muster/observe/queued_sink.h"
#include "muster/observe/sinks/jsonl/jsonl.h"
#include "muster/observe/sinks/ledger/ledger.h"
#include "muster/observe/sinks/tensorboard/tensorboard.h"
#include "muster/observe/sinks/trace/trace.h"

namespace muster::app {
namespace {

using OpenedSink = Result<std::shared_ptr<observe::Sink>>;

// Whatever the system says of it, it is this machine's affair: no job file is wrong.
OpenedSink queued(OpenedSink sink, std::string_view instead) {
  if (sink) return observe::create_queued_sink(std::move(*sink), system_clock());
  Error why = std::move(sink).error();
  why.code = ErrorCode::kUnavailable;
  why.message += fmt::format(
      "; nothing is trained that is not recorded: move away what stands in its place, or {}",
      instead);
  return with_context(std::move(why), "[train] what the run measures cannot be recorded");
}

}  // namespace

// TensorBoard's file, which is new at every start, comes last.
Result<RunSinks> open_run_sinks(Files& files, const observe::RunFolder& folder, bool traces,
                                const Logger& log) {
  const auto warn = [log](const Error& error) { log->warn("{}", error.message); };
  Clock& clock = system_clock();
  RunSinks sinks;
  if (traces) {
    sinks.trace_path = observe::free_path(files, folder.trace(), observe::trace_file, clock.wall());
    MUSTER_ASSIGN(sinks.trace,
                  queued(observe::create_trace_sink(files, *sinks.trace_path, clock, warn),
                         "train without --trace (trace.enabled)"));
  }
  const auto keep = [&sinks](OpenedSink sink) -> Status {
    MUSTER_ASSIGN(auto kept, queued(std::move(sink), "name another run_folder"));
    sinks.kept.push_back(std::move(kept));
    return ok();
  };
  MUSTER_TRY(keep(observe::create_jsonl_sink(files, folder.metrics(), clock, warn)));
  MUSTER_TRY(keep(observe::create_ledger_sink(files, folder.ledger(), clock, warn)));
  MUSTER_TRY(keep(observe::create_tensorboard_sink(files, folder.root(), clock, warn)));
  return sinks;
}

}  // namespace muster::app
