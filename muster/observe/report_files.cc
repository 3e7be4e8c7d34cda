#include "muster/observe/record_json.h"
#include "muster/observe/report.h"

namespace muster::observe {
namespace {

void add(ReportInput& input, Record&& record) {
  if (auto* started = std::get_if<RunStarted>(&record)) input.started = std::move(*started);
  if (auto* row = std::get_if<Metrics>(&record)) input.rows.push_back(std::move(*row));
  if (auto* ended = std::get_if<RunEnded>(&record)) input.ended = std::move(*ended);
  if (auto* checkpoint = std::get_if<CheckpointWritten>(&record)) {
    input.checkpoints.push_back(std::move(*checkpoint));
  }
}

}  // namespace

Result<ReportInput> read_run(Files& files, const RunFolder& folder) {
  MUSTER_ASSIGN(const std::string metrics, files.read(folder.metrics()));
  MUSTER_ASSIGN(std::vector<Record> records, read_json_lines(metrics));
  ReportInput input;
  input.ended.completed = false;
  input.ended.reason = "no end was recorded";
  for (Record& record : records) add(input, std::move(record));
  if (const auto text = files.read(folder.environment())) {
    MUSTER_ASSIGN(input.environment, environment_from_json(*text));
  }
  if (auto job = files.read(folder.resolved_job())) input.resolved_job = std::move(*job);
  return input;
}

Status write_report(Files& files, const RunFolder& folder) {
  MUSTER_ASSIGN(const ReportInput input, read_run(files, folder));
  return write_atomically(files, folder.report(), render_report(input));
}

}  // namespace muster::observe
