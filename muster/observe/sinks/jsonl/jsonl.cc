#include "muster/observe/sinks/jsonl/jsonl.h"

#include <mutex>
#include <optional>
#include <utility>

#include "muster/observe/line_file.h"
#include "muster/observe/record_json.h"

namespace muster::observe {
namespace {

bool is_for_others(const Record& record) {
  return std::holds_alternative<Span>(record) || std::holds_alternative<StepCommitted>(record) ||
         std::holds_alternative<WentBack>(record);
}

class JsonlSink final : public Sink {
 public:
  explicit JsonlSink(LineFile file) : file_(std::move(file)) {}

  void take(const Record& record) noexcept override {
    if (is_for_others(record)) return;
    const std::lock_guard lock(mutex_);
    std::optional<LineFile::Steps> about;
    if (const auto* row = std::get_if<Metrics>(&record)) about = {row->step, row->step};
    file_.append(to_json_line(record) + "\n", about);
  }

 private:
  std::mutex mutex_;
  LineFile file_;
};

}  // namespace

Result<std::shared_ptr<Sink>> create_jsonl_sink(Files& files, const Path& path, const Clock& clock,
                                                std::function<void(const Error&)> on_error) {
  MUSTER_ASSIGN(LineFile file,
                LineFile::open(files, path, clock, "[observe/jsonl]", std::move(on_error)));
  return std::make_shared<JsonlSink>(std::move(file));
}

}  // namespace muster::observe
