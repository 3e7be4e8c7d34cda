#include "muster/base/split_log.h"

#include <spdlog/sinks/stdout_sinks.h>

namespace muster {
namespace {

class SplitSink final : public spdlog::sinks::sink {
 public:
  SplitSink() { out_.set_pattern("%Y-%m-%dT%H:%M:%S.%e %v"); }

  void log(const spdlog::details::log_msg& message) override {
    spdlog::sinks::sink& to = message.level >= spdlog::level::warn
                                  ? *errors_->sinks().front()
                                  : static_cast<spdlog::sinks::sink&>(out_);
    to.log(message);
    to.flush();
  }
  void flush() override { out_.flush(); }
  void set_pattern(const std::string& pattern) override { out_.set_pattern(pattern); }
  void set_formatter(std::unique_ptr<spdlog::formatter> formatter) override {
    out_.set_formatter(std::move(formatter));
  }

 private:
  spdlog::sinks::stdout_sink_mt out_;
  const Logger errors_ = create_stderr_logger();
};

}  // namespace

Logger create_split_logger() {
  return std::make_shared<spdlog::logger>("muster", std::make_shared<SplitSink>());
}

}  // namespace muster
