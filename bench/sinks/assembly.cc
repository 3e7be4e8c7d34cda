#include "bench/sinks/assembly.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>
#include <variant>

#include "muster/app/launch/mlflow_server.h"
#include "muster/base/pause.h"
#include "muster/cluster/environment.h"
#include "muster/observe/queued_sink.h"
#include "muster/observe/record_codec.h"
#include "muster/observe/sinks/console/console.h"
#include "muster/observe/sinks/jsonl/jsonl.h"
#include "muster/observe/sinks/ledger/ledger.h"
#include "muster/observe/sinks/tensorboard/tensorboard.h"
#include "muster/observe/sinks/trace/trace.h"

namespace muster::bench {
namespace {

constexpr Duration kSecond = std::chrono::seconds(1);
constexpr Duration kUntilItStands = std::chrono::seconds(4);  // as an MLflow run takes to be made
// No bound but the harness's: the clock is in a hurry, disk and server are not.
constexpr Duration kUnhurried = std::chrono::hours(1);

void complain(const Error& error) { fmt::print(stderr, "{}\n", error.message); }

}  // namespace

Assembly::Assembly(const Surroundings& around, Path folder)
    : around_(around), folder_(std::move(folder)), began_(around.clock.now()) {}

Status Assembly::keep(Result<std::shared_ptr<observe::Sink>> sink) {
  if (!sink) return sink.error();
  kept_.push_back(hub_.subscribe(
      observe::create_queued_sink(std::move(*sink), around_.clock, {.drain_timeout = kUnhurried})));
  return ok();
}

Status Assembly::add(std::string_view part) {
  Files& files = around_.files;
  if (part == "console") return add_console();
  if (part == "jsonl")
    return keep(
        observe::create_jsonl_sink(files, folder_ / "metrics.jsonl", around_.clock, complain));
  if (part == "ledger")
    return keep(
        observe::create_ledger_sink(files, folder_ / "ledger.jsonl", around_.clock, complain));
  if (part == "tensorboard")
    return keep(observe::create_tensorboard_sink(files, folder_, around_.clock, complain));
  if (part == "trace") return add_trace();
  if (part == "live") return add_live();
  if (part == "prometheus") return add_prometheus();
  if (part == "mlflow") return add_mlflow();
  over_channel_ = true;
  return ok();
}

Status Assembly::add_console() {
  terminal_ = observe::open_terminal(1);
  return keep(observe::create_console_sink(*terminal_, around_.clock, {}));
}

Status Assembly::add_trace() {
  MUSTER_ASSIGN(auto sink, observe::create_trace_sink(around_.files, folder_ / "trace.json",
                                                      around_.clock, complain));
  traced_ =
      observe::create_queued_sink(std::move(sink), around_.clock, {.drain_timeout = kUnhurried});
  path_.enter(Generation{1}, static_cast<std::size_t>(around_.recording.started.workers));
  return ok();
}

Status Assembly::add_live() {
  live_file_.emplace(around_.files, folder_ / "live.json", around_.clock);
  std::vector<cluster::MemberInfo> members;
  for (std::int32_t worker = 0; worker < around_.recording.started.workers; ++worker)
    members.push_back({Rank{worker}, cluster::describe_this_process(worker, around_.files)});
  live_file_->set_members(members);
  return ok();
}

Status Assembly::add_prometheus() {
  numbers_ = observe::create_prometheus_sink();
  numbers_->set_workers(around_.recording.started.workers);
  kept_.push_back(hub_.subscribe(numbers_));
  return ok();
}

Status Assembly::add_mlflow() {
  observe::MlflowRun run;
  run.tracking_uri = around_.tracking_uri;
  run.experiment = "sinks";
  run.name = run.id = folder_.filename().string();
  run.record = folder_ / "mlflow.json";
  tracked_ = observe::create_mlflow_sink(
      app::open_mlflow_server(around_.tracking_uri, {}), std::move(run), around_.files,
      around_.clock, [](const observe::Notice& notice) { fmt::print(stderr, "{}\n", notice.text); },
      {.patience = kUnhurried});
  kept_.push_back(hub_.subscribe(tracked_));
  return ok();
}

void Assembly::begin() {
  observe::RunStarted started = around_.recording.started;
  started.total_steps = around_.steps;
  started.total_samples = around_.steps * started.batch;
  hub_.publish(started);
  pause(around_.clock, kUntilItStands);
}

void Assembly::step(std::int64_t index) {
  for (const Message& message : messages_of(around_.recording, index, began_)) take(message);
  const Step step{index + 1};
  if (live_file_) beat(step);
  const std::int64_t steps_a_second =
      std::max<std::int64_t>(1, kSecond / around_.recording.step_time);
  const bool is_last = index + 1 == around_.steps;
  if (numbers_ && (is_last || index % steps_a_second == 0)) scraped_ = numbers_->text();
}

void Assembly::take(const Message& message) {
  if (!over_channel_) {
    for (const observe::Record& record : message) publish(record);
    return;
  }
  const auto received = observe::decode(observe::encode(message));
  if (!received) return complain(received.error());
  for (const observe::Record& record : *received) publish(record);
}

void Assembly::publish(const observe::Record& record) {
  const auto* span = std::get_if<observe::Span>(&record);
  if (span == nullptr) return hub_.publish(record);
  if (!traced_) return;
  ++told_spans_;
  path_.add(*span);
  traced_->take(record);
}

void Assembly::beat(Step step) {
  const cluster::Progress progress{.step = step,
                                   .phase = "computing and reducing gradients",
                                   .operation = "backward of slice 3"};
  for (std::int32_t worker = 0; worker < around_.recording.started.workers; ++worker)
    live_file_->note(worker, progress);
}

void Assembly::end() {
  if (live_file_) live_text_ = around_.files.read(folder_ / "live.json").value_or("");
  live_file_.reset();
  observe::RunEnded ended;
  ended.step = Step{around_.steps};
  hub_.publish(ended);
  if (tracked_) tracked_->finish(observe::RunState::kFinished, {}, kUnhurried);
  kept_.clear();
  traced_.reset();
}

std::int64_t Assembly::path_steps() const { return path_.summary().steps; }

}  // namespace muster::bench
