#include "muster/observe/sinks/tensorboard/tensorboard.h"

#include <fmt/format.h>

#include <chrono>
#include <mutex>
#include <utility>
#include <variant>

#include "muster/observe/line_file.h"
#include "muster/observe/sinks/tensorboard/event_record.h"

namespace muster::observe {
namespace {

double seconds_of(WallTime time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

class TensorboardSink final : public Sink {
 public:
  explicit TensorboardSink(LineFile file) : file_(std::move(file)) {}

  void take(const Record& record) noexcept override {
    const auto* row = std::get_if<Metrics>(&record);
    if (row == nullptr) return;
    const std::lock_guard lock(mutex_);
    file_.append(scalar_record(seconds_of(row->time), to_int(row->step), row->values));
  }

 private:
  std::mutex mutex_;
  LineFile file_;
};

}  // namespace

std::string tensorboard_file(WallTime now) {
  return fmt::format("events.out.tfevents.{:010}.muster",
                     std::chrono::floor<std::chrono::seconds>(now).time_since_epoch().count());
}

Result<std::shared_ptr<Sink>> create_tensorboard_sink(Files& files, const Path& path, WallTime now,
                                                      std::function<void(const Error&)> on_error) {
  const bool begins = !files.exists(path);
  MUSTER_ASSIGN(LineFile file,
                LineFile::open(files, path, "[observe/tensorboard] events are no longer written",
                               std::move(on_error)));
  if (begins) file.append(version_record(seconds_of(now)));
  return std::make_shared<TensorboardSink>(std::move(file));
}

}  // namespace muster::observe
