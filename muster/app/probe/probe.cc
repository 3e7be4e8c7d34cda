#include "muster/app/probe/probe.h"

#include <fmt/format.h>
#include <httplib.h>

#include "muster/app/probe/shell_command.h"
#include "muster/base/trimmed.h"

namespace muster::app {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

// "http://host:port/path" at its path.
std::pair<std::string, std::string> split_url(const std::string& url) {
  const auto host = url.find("://");
  const auto path = url.find('/', host == std::string::npos ? 0 : host + 3);
  return path == std::string::npos ? std::pair(url, std::string("/"))
                                   : std::pair(url.substr(0, path), url.substr(path));
}

}  // namespace

Probe::Probe(ProbeSpec spec, Duration every, std::function<void(const Answer&)> on_answer,
             Processes& processes, Files& files, Logger log)
    : spec_(std::move(spec)),
      on_answer_(std::move(on_answer)),
      processes_(processes),
      files_(files),
      log_(std::move(log)),
      thread_([this, every](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          ask_all(stop);
          pause_unless_stopped(stop, every);
        }
      }) {}

Probe::~Probe() = default;

void Probe::ask_all(const std::stop_token& stop) {
  if (!spec_.file.empty() && files_.exists(spec_.file)) {
    const auto text = files_.read(spec_.file);
    take(text ? Result<std::optional<std::string>>(*text) : text.error(), Asked::kFile,
         "file " + spec_.file);
  }
  if (!spec_.command.empty()) take(run_command(stop), Asked::kCommand, "command");
  if (!spec_.url.empty() && !stop.stop_requested()) take(get(stop), Asked::kAddress, spec_.url);
}

void Probe::take(const Result<std::optional<std::string>>& answer, Asked asked,
                 const std::string& from) {
  if (!answer) {
    if (std::exchange(complained_, answer.error().message) != answer.error().message)
      log_->warn("{}", answer.error().message);
    return;
  }
  complained_.clear();
  if (*answer) on_answer_({std::string(trimmed(**answer, kBlanks)), from, asked});
}

Result<std::optional<std::string>> Probe::run_command(const std::stop_token& stop) {
  const auto ended = run_shell({.command = spec_.command, .limit = spec_.limit}, processes_, stop);
  if (!ended) return with_context(ended.error(), "[probe]");
  if (!*ended) return std::optional<std::string>();
  const ShellEnd& done = **ended;
  const std::string_view said = trimmed(done.said, kBlanks);
  if (done.end.exit_status == 0) return std::optional(done.output);
  if (done.end.exit_status == 1 && said.empty()) return std::optional<std::string>();
  return fail(ErrorCode::kUnavailable,
              fmt::format("[probe] command `{}`: {}: {}; 0 means that its output is the answer, 1 "
                          "that there is none",
                          spec_.command, describe(done.end), said));
}

Result<std::optional<std::string>> Probe::get(const std::stop_token& stop) {
  const auto [host, path] = split_url(spec_.url);
  httplib::Client client(host);
  if (!client.is_valid())
    return fail(
        ErrorCode::kInvalid,
        fmt::format("[probe] \"{}\" is no address; expected http://host[:port]/path", spec_.url));
  client.set_connection_timeout(spec_.limit);
  client.set_read_timeout(spec_.limit);
  const std::stop_callback on_stop(stop, [&client] { client.stop(); });
  // Without the one Google's metadata server answers nobody, without the other Azure's; others do
  // not mind.
  const auto answer =
      client.Get(path, httplib::Headers{{"Metadata-Flavor", "Google"}, {"Metadata", "true"}});
  if (stop.stop_requested()) return std::optional<std::string>();
  if (!answer)
    return fail(ErrorCode::kUnavailable,
                fmt::format("[probe] {}: {}", spec_.url, httplib::to_string(answer.error())));
  if (answer->status == 200) return std::optional(answer->body);
  if (answer->status == 404) return std::optional<std::string>();
  return fail(ErrorCode::kUnavailable,
              fmt::format("[probe] {}: status {}; 200 means that the body is the answer, 404 that "
                          "there is none",
                          spec_.url, answer->status));
}

}  // namespace muster::app
