#include "muster/observe/line_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "muster/base/units.h"

namespace muster::observe {
namespace {

// As a full disk or a lost machine leaves it: what follows must not be glued to it.
Result<bool> ends_within_a_line(Files& files, const Path& path) {
  MUSTER_ASSIGN(const std::uint64_t size, files.size(path));
  if (size == 0) return false;
  std::byte last{};
  MUSTER_TRY(files.read_at(path, size - 1, std::span(&last, 1)));
  return last != std::byte{'\n'};
}

std::string about_steps(const std::optional<LineFile::Steps>& about) {
  if (!about) return "";
  if (about->first == about->last) return fmt::format(", of step {}", to_int(about->first));
  return fmt::format(", of steps {} to {}", to_int(about->first), to_int(about->last));
}

}  // namespace

Result<LineFile> LineFile::open(Files& files, const Path& path, const Clock& clock,
                                std::string place, std::function<void(const Error&)> on_error) {
  LineFile file(files, path, clock, std::move(place), std::move(on_error));
  MUSTER_ASSIGN(file.file_, files.open(path, Files::Open::kAppend));
  MUSTER_ASSIGN(file.size_, files.size(path));
  MUSTER_ASSIGN(const bool torn, ends_within_a_line(files, path));
  file.looked_ = clock.now();
  if (torn) file.append("\n");
  return file;
}

LineFile::~LineFile() {
  if (!file_) return;
  if (!waiting_.empty()) write_waiting();
  for (const Waiting& left : waiting_) lose(left.about);
  if (lost_.lines > 0) tell_loss();
}

bool LineFile::append(std::string line, std::optional<Steps> about) {
  if (!waiting_.empty() && clock_.now() - tried_ >= kTriesAgainAfter) write_waiting();
  // What comes after a line that was lost is lost as well, so that there is one gap to name.
  const bool full = told_ < lost_.lines || waiting_bytes_ + line.size() > kMostWaiting;
  if (!waiting_.empty() && full) {
    lose(about);
    return false;
  }
  waiting_bytes_ += line.size();
  waiting_.push_back({std::move(line), about});
  if (waiting_.size() == 1) write_waiting();
  look_after();
  return true;
}

// A file that has lost its name takes lines without an error, and nobody finds them.
void LineFile::look_after() {
  if (gone_ || clock_.now() - looked_ < kLooksAfter) return;
  looked_ = clock_.now();
  gone_ = !files_.exists(path_);
  if (!gone_) return;
  on_error_(
      fail(ErrorCode::kNotFound,
           fmt::format("{} there is no {} any more: somebody has moved or deleted it; what is "
                       "written from here on goes with it",
                       place_, path_.native())));
}

void LineFile::write_waiting() {
  tried_ = clock_.now();
  while (!waiting_.empty()) {
    const Status written = write_first();
    if (written) continue;
    if (std::exchange(failing_, true)) return;
    return on_error_(with_context(written.error(),
                                  fmt::format("{} {} cannot be written now; its lines wait in "
                                              "memory, {} at most, until it can be",
                                              place_, path_.native(), format_bytes(kMostWaiting))));
  }
  failing_ = false;
  if (told_ < lost_.lines) tell_loss();
}

Status LineFile::write_first() {
  MUSTER_ASSIGN(const std::size_t done, written_of_first());
  const std::string_view line = waiting_.front().line;
  MUSTER_TRY(file_->append(std::as_bytes(std::span(line.substr(done)))));
  size_ += line.size();
  waiting_bytes_ -= line.size();
  waiting_.pop_front();
  return ok();
}

// A write that failed may have written a part, after which it goes on.
Result<std::size_t> LineFile::written_of_first() {
  if (!failing_) return std::size_t{0};
  MUSTER_ASSIGN(const std::uint64_t size, files_.size(path_));
  if (size >= size_ && size - size_ <= waiting_.front().line.size())
    return static_cast<std::size_t>(size - size_);
  // Somebody made room by emptying it.
  MUSTER_ASSIGN(const bool torn, ends_within_a_line(files_, path_));
  size_ = size;
  if (torn) waiting_.front().line.insert(0, "\n");
  waiting_bytes_ += torn ? 1 : 0;
  return std::size_t{0};
}

void LineFile::lose(const std::optional<Steps>& about) {
  ++lost_.lines;
  if (!about) return;
  if (!lost_.about) lost_.about = about;
  lost_.about->first = std::min(lost_.about->first, about->first);
  lost_.about->last = std::max(lost_.about->last, about->last);
}

void LineFile::tell_loss() {
  told_ = lost_.lines;
  on_error_(fail(ErrorCode::kUnavailable,
                 fmt::format("{} {} lacks {}{}, that could not be written", place_, path_.native(),
                             counted(lost_.lines, "line"), about_steps(lost_.about))));
}

Path free_path(Files& files, const Path& folder, std::string (*name)(WallTime), WallTime now) {
  while (files.exists(folder / name(now))) now += std::chrono::seconds(1);
  return folder / name(now);
}

}  // namespace muster::observe
