#include "muster/observe/line_file.h"

#include <span>
#include <utility>

namespace muster::observe {
namespace {

// As a full disk or a lost machine leaves it: what follows must not be glued to it.
Result<bool> ends_within_a_line(Files& files, const Path& path) {
  if (!files.exists(path)) return false;
  MUSTER_ASSIGN(const std::uint64_t size, files.size(path));
  if (size == 0) return false;
  std::byte last{};
  MUSTER_TRY(files.read_at(path, size - 1, std::span(&last, 1)));
  return last != std::byte{'\n'};
}

}  // namespace

Result<LineFile> LineFile::open(Files& files, const Path& path, std::string loss,
                                std::function<void(const Error&)> on_error) {
  MUSTER_ASSIGN(const bool torn, ends_within_a_line(files, path));
  MUSTER_ASSIGN(std::unique_ptr<WritableFile> file, files.open(path, Files::Open::kAppend));
  if (torn) MUSTER_TRY(file->append(std::as_bytes(std::span("\n", 1))));
  return LineFile(std::move(file), std::move(loss), std::move(on_error));
}

bool LineFile::append(std::string_view line) {
  if (failed_) return false;
  const Status written = file_->append(std::as_bytes(std::span(line)));
  if (written) return true;
  failed_ = true;
  on_error_(with_context(written.error(), loss_));
  return false;
}

Path free_path(Files& files, const Path& folder, std::string (*name)(WallTime), WallTime now) {
  while (files.exists(folder / name(now))) now += std::chrono::seconds(1);
  return folder / name(now);
}

}  // namespace muster::observe
