#include <fmt/format.h>

#include "muster/observe/record_json.h"
#include "muster/observe/report.h"

namespace muster::observe {
namespace {

constexpr std::ptrdiff_t kNotices = 40;

RunEnded no_end() {
  RunEnded ended;
  ended.completed = false;
  ended.reason = "no end was recorded";
  return ended;
}

// As far as its steps tell: it may be under way, or its launcher was killed.
void end_with_the_last_row(ReportInput& input) {
  if (input.rows.empty() || input.ended.reason != no_end().reason) return;
  input.ended.step = input.rows.back().step;
  input.ended.took = input.rows.back().time - input.rows.front().time;
}

void add(ReportInput& input, Record&& record) {
  if (auto* started = std::get_if<RunStarted>(&record)) {
    input.started = std::move(*started);
    input.ended = no_end();  // of the run before it went on
  }
  if (auto* row = std::get_if<Metrics>(&record)) input.rows.push_back(std::move(*row));
  if (auto* ended = std::get_if<RunEnded>(&record)) input.ended = std::move(*ended);
  if (auto* notice = std::get_if<Notice>(&record)) input.notices.push_back(std::move(*notice));
  if (auto* checkpoint = std::get_if<CheckpointWritten>(&record)) {
    input.checkpoints.push_back(std::move(*checkpoint));
  }
}

}  // namespace

Result<ReportInput> read_run(Files& files, const RunFolder& folder) {
  MUSTER_ASSIGN(const std::string metrics, files.read(folder.metrics()));
  ReadLines lines = read_whole_json_lines(metrics);
  ReportInput input;
  input.ended = no_end();
  for (Record& record : lines.records) add(input, std::move(record));
  end_with_the_last_row(input);
  if (input.ended.reason == no_end().reason && folder.launcher(files))
    input.ended.reason = "it still trains";
  if (std::ssize(input.notices) > kNotices)
    input.notices.erase(input.notices.begin(), input.notices.end() - kNotices);
  for (const Error& damaged : lines.damaged)
    input.left_out.push_back(fmt::format("{}: {}", folder.metrics().native(), damaged.message));
  if (const auto text = files.read(folder.environment())) {
    auto environment = environment_from_json(*text);
    if (environment)
      input.environment = std::move(*environment);
    else
      input.left_out.push_back(
          fmt::format("{}: {}", folder.environment().native(), environment.error().message));
  }
  if (auto job = files.read(folder.resolved_job())) input.resolved_job = std::move(*job);
  return input;
}

Status write_report(Files& files, const ReportInput& input, const Path& page) {
  return write_atomically(files, page, render_report(input));
}

}  // namespace muster::observe
