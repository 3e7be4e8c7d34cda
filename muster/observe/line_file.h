#pragma once
// A file of lines that are appended whole, for sinks that write one. What cannot be written, as on
// a full disk, waits in memory and is written once it can be; where there is no room either, it and
// all that follows until then is lost, and named. One thread at a time.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/files.h"
#include "muster/base/ids.h"
#include "muster/base/result.h"

namespace muster::observe {

class LineFile {
 public:
  // What a line is about, to name what is lost.
  struct Steps {
    Step first{0};
    Step last{0};
  };

  static constexpr std::size_t kMostWaiting = 4 << 20;                   // bytes
  static constexpr Duration kTriesAgainAfter = std::chrono::seconds(1);  // with a line that comes
  static constexpr Duration kLooksAfter = std::chrono::seconds(1);       // likewise

  // At the end of `path`. What a full disk or a lost machine left of a line there is cut off from
  // what follows. `on_error` is told, with `place` ("[observe/jsonl]") before it: that a write
  // failed, once until all that waits has been written; then, if lines were lost, which; and all
  // that were, as the object goes, which tries once more. Likewise, once, that somebody has moved
  // or deleted the file, with which goes what is written from then on.
  static Result<LineFile> open(Files& files, const Path& path, const Clock& clock,
                               std::string place, std::function<void(const Error&)> on_error);
  ~LineFile();
  LineFile(LineFile&&) = default;
  LineFile& operator=(LineFile&&) = delete;

  // With its newline. False: it is lost.
  bool append(std::string line, std::optional<Steps> about = std::nullopt);

 private:
  struct Waiting {
    std::string line;
    std::optional<Steps> about;
  };
  struct Lost {
    std::int64_t lines = 0;
    std::optional<Steps> about;
  };

  LineFile(Files& files, Path path, const Clock& clock, std::string place,
           std::function<void(const Error&)> on_error)
      : files_(files),
        path_(std::move(path)),
        clock_(clock),
        place_(std::move(place)),
        on_error_(std::move(on_error)) {}

  void write_waiting();
  Status write_first();
  Result<std::size_t> written_of_first();
  void look_after();
  void lose(const std::optional<Steps>& about);
  void tell_loss();

  Files& files_;
  const Path path_;
  const Clock& clock_;
  const std::string place_;
  const std::function<void(const Error&)> on_error_;
  std::unique_ptr<WritableFile> file_;  // null: moved from
  std::uint64_t size_ = 0;              // of the whole lines in the file
  std::deque<Waiting> waiting_;         // of the first a part may be in the file
  std::size_t waiting_bytes_ = 0;
  bool failing_ = false;  // a write did, and something still waits
  TimePoint tried_{};
  TimePoint looked_{};  // whether it is still there
  bool gone_ = false;
  Lost lost_;
  std::int64_t told_ = 0;  // lines, of those lost
};

// Each start of a run has a file of its own, named by its second: that of the first second from
// `now` on which no other start took.
Path free_path(Files& files, const Path& folder, std::string (*name)(WallTime), WallTime now);

}  // namespace muster::observe
