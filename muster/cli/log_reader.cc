#include "muster/cli/log_reader.h"

#include <utility>

#include "muster/base/number.h"

namespace muster::cli {
namespace {

// "rank-12.log" is 12.
std::optional<std::int32_t> worker_of(std::string_view name) {
  constexpr std::string_view kBefore = "rank-";
  constexpr std::string_view kBehind = ".log";
  if (!name.starts_with(kBefore) || !name.ends_with(kBehind)) return std::nullopt;
  name.remove_prefix(kBefore.size());
  name.remove_suffix(kBehind.size());
  return number_from<std::int32_t>(name);
}

// Where the last `count` lines begin.
std::size_t beginning_of_last(std::string_view text, std::size_t count) {
  std::size_t begin = text.ends_with('\n') ? text.size() - 1 : text.size();
  if (count == 0) return text.size();
  for (; count > 0; --count) {
    const auto end = begin == 0 ? text.npos : text.rfind('\n', begin - 1);
    if (end == text.npos) return 0;
    begin = end;
  }
  return begin + 1;
}

}  // namespace

LogReader::LogReader(Files& files, const observe::RunFolder& folder,
                     std::optional<std::int32_t> worker, Take take)
    : files_(files), folder_(folder), worker_(worker), take_(std::move(take)) {}

std::map<std::int32_t, Path> LogReader::logs() const {
  std::map<std::int32_t, Path> found;
  const auto names = files_.list(folder_.logs());
  if (!names) return found;
  for (const std::string& name : *names) {
    const auto worker = worker_of(name);
    if (worker && (!worker_ || *worker_ == *worker)) found[*worker] = folder_.logs() / name;
  }
  return found;
}

std::string LogReader::more(const Path& path, Log& log) const {
  const auto size = files_.size(path);
  if (!size || *size <= log.at) return {};
  std::string text(*size - log.at, '\0');
  const auto count = files_.read_at(path, log.at, std::as_writable_bytes(std::span(text)));
  text.resize(count ? *count : 0);
  log.at += text.size();
  return text;
}

void LogReader::give_lines(std::int32_t worker, Log& log) {
  std::string_view text = log.rest;
  for (std::size_t end = 0; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1))
    take_(worker, text.substr(0, end));
  log.rest = std::string(text);
}

void LogReader::begin(std::optional<std::size_t> tail) {
  for (const auto& [worker, path] : logs()) {
    Log& log = read_[worker];
    log.rest = more(path, log);
    if (tail) log.rest.erase(0, beginning_of_last(log.rest, *tail));
    give_lines(worker, log);
  }
}

void LogReader::read_on() {
  for (const auto& [worker, path] : logs()) {
    Log& log = read_[worker];
    log.rest += more(path, log);
    give_lines(worker, log);
  }
}

void LogReader::finish() {
  for (auto& [worker, log] : read_) {
    if (!log.rest.empty()) take_(worker, std::exchange(log.rest, {}));
  }
}

}  // namespace muster::cli
