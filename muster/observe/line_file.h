#pragma once
// A file of lines that are appended whole, for sinks that write one. One thread at a time.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "muster/base/clock.h"
#include "muster/base/files.h"
#include "muster/base/result.h"

namespace muster::observe {

class LineFile {
 public:
  // At the end of `path`. What a full disk or a lost machine left of a line there is cut off from
  // what follows. The first failed write is told to `on_error`, in the context of `loss`; after it
  // nothing is written.
  static Result<LineFile> open(Files& files, const Path& path, std::string loss,
                               std::function<void(const Error&)> on_error);

  bool append(std::string_view line);  // with its newline; false: not written

 private:
  LineFile(std::unique_ptr<WritableFile> file, std::string loss,
           std::function<void(const Error&)> on_error)
      : file_(std::move(file)), loss_(std::move(loss)), on_error_(std::move(on_error)) {}

  std::unique_ptr<WritableFile> file_;
  std::string loss_;
  std::function<void(const Error&)> on_error_;
  bool failed_ = false;
};

// Each start of a run has a file of its own, named by its second: that of the first second from
// `now` on which no other start took.
Path free_path(Files& files, const Path& folder, std::string (*name)(WallTime), WallTime now);

}  // namespace muster::observe
