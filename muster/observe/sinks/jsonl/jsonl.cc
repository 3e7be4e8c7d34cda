#include "muster/observe/sinks/jsonl/jsonl.h"

#include <mutex>

#include "muster/observe/record_json.h"

namespace muster::observe {
namespace {

class JsonlSink final : public Sink {
 public:
  JsonlSink(std::unique_ptr<WritableFile> file, std::function<void(const Error&)> on_error)
      : file_(std::move(file)), on_error_(std::move(on_error)) {}

  void take(const Record& record) noexcept override {
    if (std::holds_alternative<Span>(record)) return;
    const std::lock_guard lock(mutex_);
    if (failed_) return;
    const std::string line = to_json_line(record) + "\n";
    const Status written = file_->append(std::as_bytes(std::span(line)));
    if (written) return;
    failed_ = true;
    on_error_(with_context(written.error(), "[observe/jsonl] metrics are no longer written"));
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<WritableFile> file_;
  std::function<void(const Error&)> on_error_;
  bool failed_ = false;
};

}  // namespace

Result<std::shared_ptr<Sink>> create_jsonl_sink(Files& files, const Path& path,
                                                std::function<void(const Error&)> on_error) {
  MUSTER_ASSIGN(std::unique_ptr<WritableFile> file, files.open(path, Files::Open::kAppend));
  return std::make_shared<JsonlSink>(std::move(file), std::move(on_error));
}

}  // namespace muster::observe
