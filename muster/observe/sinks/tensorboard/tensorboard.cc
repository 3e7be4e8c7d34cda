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
  TensorboardSink(LineFile file, double began) : file_(std::move(file)), began_(began) {}

  void take(const Record& record) noexcept override {
    const std::lock_guard lock(mutex_);
    if (const auto* started = std::get_if<RunStarted>(&record);
        started && started->first_step > Step{0})
      file_.append(restart_record(began_, to_int(started->first_step)));
    const auto* row = std::get_if<Metrics>(&record);
    if (row == nullptr) return;
    file_.append(scalar_record(seconds_of(row->time), to_int(row->step), row->values),
                 LineFile::Steps{row->step, row->step});
  }

 private:
  std::mutex mutex_;
  LineFile file_;
  double began_;  // seconds since the epoch
};

}  // namespace

std::string tensorboard_file(WallTime now) {
  return fmt::format("events.out.tfevents.{:010}.muster",
                     std::chrono::floor<std::chrono::seconds>(now).time_since_epoch().count());
}

Result<std::shared_ptr<Sink>> create_tensorboard_sink(Files& files, const Path& folder,
                                                      const Clock& clock,
                                                      std::function<void(const Error&)> on_error) {
  const WallTime now = clock.wall();
  MUSTER_ASSIGN(LineFile file,
                LineFile::open(files, free_path(files, folder, tensorboard_file, now), clock,
                               "[observe/tensorboard]", std::move(on_error)));
  file.append(version_record(seconds_of(now)));
  return std::make_shared<TensorboardSink>(std::move(file), seconds_of(now));
}

}  // namespace muster::observe
