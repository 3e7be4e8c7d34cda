#pragma once
// Reads on in the log files of a run while its workers write them. One thread.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "muster/base/files.h"
#include "muster/observe/run_folder.h"

namespace muster::cli {

class LogReader {
 public:
  // `worker`: only its log. `take` gets whole lines, without their end.
  using Take = std::function<void(std::int32_t worker, std::string_view line)>;
  LogReader(Files& files, const observe::RunFolder& folder, std::optional<std::int32_t> worker,
            Take take);

  // What is there of logs now; of each no more than its last `tail` lines.
  void begin(std::optional<std::size_t> tail);
  void read_on();  // what has come since, of logs that have come since too
  void finish();   // a last line without its end

 private:
  struct Log {
    std::uint64_t at = 0;
    std::string rest;  // of a line whose end has not come
  };
  std::map<std::int32_t, Path> logs() const;  // by worker
  std::string more(const Path& path, Log& log) const;
  void give_lines(std::int32_t worker, Log& log);

  Files& files_;
  const observe::RunFolder& folder_;
  const std::optional<std::int32_t> worker_;
  const Take take_;
  std::map<std::int32_t, Log> read_;
};

}  // namespace muster::cli
