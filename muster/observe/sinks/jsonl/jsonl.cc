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
    if (std::holds_alternative<Span>(record) || std::holds_alternative<StepCommitted>(record))
      return;
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

// As a full disk or a lost machine leaves it: what follows must not be glued to it.
Result<bool> ends_within_a_line(Files& files, const Path& path) {
  if (!files.exists(path)) return false;
  MUSTER_ASSIGN(const std::uint64_t size, files.size(path));
  if (size == 0) return false;
  std::byte last{};
  MUSTER_TRY(files.read_at(path, size - 1, std::span(&last, 1)));
  return last != std::byte{'\n'};
}

}  // namespace

Result<std::shared_ptr<Sink>> create_jsonl_sink(Files& files, const Path& path,
                                                std::function<void(const Error&)> on_error) {
  MUSTER_ASSIGN(const bool torn, ends_within_a_line(files, path));
  MUSTER_ASSIGN(std::unique_ptr<WritableFile> file, files.open(path, Files::Open::kAppend));
  if (torn) MUSTER_TRY(file->append(std::as_bytes(std::span("\n", 1))));
  return std::make_shared<JsonlSink>(std::move(file), std::move(on_error));
}

}  // namespace muster::observe
