#include "muster/base/log.h"

#include <spdlog/details/null_mutex.h>
#include <spdlog/formatter.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <iterator>
#include <string>
#include <string_view>

#include "muster/base/clock.h"
#include "muster/base/text_width.h"

namespace muster {
namespace {

std::string_view mark(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::trace:
    case spdlog::level::debug:
      return "[DEBUG] ";
    case spdlog::level::warn:
      return "[WARN] ";
    case spdlog::level::err:
      return "[ERROR] ";
    case spdlog::level::critical:
      return "[FATAL] ";
    default:
      return "";
  }
}

std::string_view view(spdlog::string_view_t text) { return {text.data(), text.size()}; }

class TextFormatter final : public spdlog::formatter {
 public:
  explicit TextFormatter(std::size_t width) : width_(width) {}
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& into) override {
    const std::string line = fmt::format("{}{}", mark(message.level), view(message.payload));
    fmt::format_to(std::back_inserter(into), "{}\n", fitted(line, width_));
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<TextFormatter>(width_);
  }

 private:
  std::size_t width_;
};

void append_json_text(spdlog::memory_buf_t& into, std::string_view text) {
  const auto out = std::back_inserter(into);
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      fmt::format_to(out, "\\{}", c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      fmt::format_to(out, "\\u{:04x}", c);
    } else {
      into.push_back(c);
    }
  }
}

class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& into) override {
    const auto out = std::back_inserter(into);
    fmt::format_to(out, R"({{"time":"{}","level":"{}","message":")", format_utc(message.time),
                   view(spdlog::level::to_string_view(message.level)));
    append_json_text(into, view(message.payload));
    fmt::format_to(out, "\"}}\n");
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }
};

}  // namespace

Logger create_stderr_logger(LogFormat format, std::size_t width) {
  auto logger =
      std::make_shared<spdlog::logger>("muster", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  if (format == LogFormat::kJson) {
    logger->set_formatter(std::make_unique<JsonFormatter>());
  } else {
    logger->set_formatter(std::make_unique<TextFormatter>(width));
  }
  logger->flush_on(spdlog::level::trace);
  return logger;
}

Logger create_null_logger() {
  return std::make_shared<spdlog::logger>("null", std::make_shared<spdlog::sinks::null_sink_mt>());
}

}  // namespace muster
