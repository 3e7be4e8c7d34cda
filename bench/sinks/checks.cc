#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <map>
#include <variant>

#include "bench/sinks/assembly.h"
#include "muster/app/debug/live_report.h"
#include "muster/observe/record_json.h"

namespace muster::bench {
namespace {

static_assert(std::endian::native == std::endian::little, "as event files are");

Status same(std::string_view what, std::int64_t found, std::int64_t wanted) {
  if (found == wanted) return ok();
  return fail(ErrorCode::kInternal,
              fmt::format("[bench/sinks] {}: {}, expected {}; a sink that loses something is not "
                          "worth timing",
                          what, found, wanted));
}

std::int64_t count_of(std::string_view text, std::string_view word) {
  std::int64_t count = 0;
  for (auto at = text.find(word); at != text.npos; at = text.find(word, at + word.size())) ++count;
  return count;
}

Status check_jsonl(const Assembly& assembly, const Surroundings& around) {
  MUSTER_ASSIGN(const std::string text, around.files.read(assembly.folder() / "metrics.jsonl"));
  MUSTER_ASSIGN(const std::vector<observe::Record> records, observe::read_json_lines(text));
  const auto rows = std::ranges::count_if(
      records, [](const auto& record) { return std::holds_alternative<observe::Metrics>(record); });
  return same("rows in metrics.jsonl", rows, around.steps);
}

Status check_ledger(const Assembly& assembly, const Surroundings& around) {
  MUSTER_ASSIGN(const std::string text, around.files.read(assembly.folder() / "ledger.jsonl"));
  const std::string last = fmt::format(",{}],\"epoch\"", around.steps);
  return same("lines of ledger.jsonl with the last step", count_of(text, last), 1);
}

// Of TFRecords: a length of 8 bytes, its checksum of 4, the record, its checksum of 4.
std::int64_t records_in(std::string_view file) {
  std::int64_t records = 0;
  while (file.size() >= sizeof(std::uint64_t)) {
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof length);
    if (length > file.size()) return -1;
    file.remove_prefix(std::min<std::size_t>(file.size(), sizeof length + 4 + length + 4));
    ++records;
  }
  return records;
}

Status check_tensorboard(const Assembly& assembly, const Surroundings& around) {
  MUSTER_ASSIGN(const std::vector<std::string> names, around.files.list(assembly.folder()));
  const auto is_events = [](const std::string& name) { return name.starts_with("events.out."); };
  const auto file = std::ranges::find_if(names, is_events);
  if (file == names.end()) return same("event files", 0, 1);
  MUSTER_ASSIGN(const std::string text, around.files.read(assembly.folder() / *file));
  return same("records in the event file", records_in(text), 1 + around.steps);
}

Status check_trace(const Assembly& assembly, const Surroundings& around) {
  MUSTER_ASSIGN(const std::string text, around.files.read(assembly.folder() / "trace.json"));
  MUSTER_TRY(same("spans in the trace", count_of(text, R"("ph":"X")"), assembly.told_spans()));
  return same("steps on the critical path", assembly.path_steps(), around.steps);
}

Status check_live(const Assembly& assembly, const Surroundings& around) {
  MUSTER_ASSIGN(const auto workers, app::live_workers_from_json(assembly.live()));
  return same("workers in live.json", std::ssize(workers), around.recording.started.workers);
}

Status check_prometheus(const Assembly& assembly, const Surroundings& around) {
  const std::string_view text = assembly.scraped();
  const std::size_t begin = std::min(text.size(), text.find("\nmuster_step{"));
  const std::string_view line = text.substr(begin, text.find('\n', begin + 1) - begin);
  const bool is_last = line.ends_with(fmt::format("}} {}", around.steps));
  return same("the step told to Prometheus", is_last ? around.steps : 0, around.steps);
}

}  // namespace

Status check(std::string_view part, const Assembly& assembly, const Surroundings& around) {
  using Check = Status (*)(const Assembly&, const Surroundings&);
  static const std::map<std::string_view, Check> kChecks = {
      {"jsonl", check_jsonl}, {"ledger", check_ledger}, {"tensorboard", check_tensorboard},
      {"trace", check_trace}, {"live", check_live},     {"prometheus", check_prometheus}};
  const auto found = kChecks.find(part);
  return found == kChecks.end() ? ok() : found->second(assembly, around);
}

}  // namespace muster::bench
