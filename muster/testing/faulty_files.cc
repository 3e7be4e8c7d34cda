#include "muster/testing/faulty_files.h"

#include <cerrno>
#include <new>

#include "muster/base/system_error.h"

namespace muster::testing {
namespace {

Error fault_error(const Path& path, Fault fault) {
  if (fault == Fault::kNoMemory) throw std::bad_alloc();
  const bool broken = fault == Fault::kIoError || fault == Fault::kPowerLoss;
  return system_error("files/planted", path.native(), broken ? EIO : ENOSPC);
}

}  // namespace

class FaultyFiles::File final : public WritableFile {
 public:
  File(FaultyFiles& files, Path path, std::unique_ptr<WritableFile> real)
      : files_(files), path_(std::move(path)), real_(std::move(real)) {}

  Status append(std::span<const std::byte> bytes) override {
    const auto fault = files_.count(path_);
    if (!fault) return real_->append(bytes);
    if (*fault == Fault::kShortWrite || *fault == Fault::kPowerLoss) {
      MUSTER_TRY(real_->append(bytes.first(bytes.size() / 2)));
    }
    return fault_error(path_, *fault);
  }
  Status sync() override {
    MUSTER_TRY(files_.change(path_));
    return real_->sync();
  }
  Status close() override {
    MUSTER_TRY(files_.change(path_));
    return real_->close();
  }

 private:
  FaultyFiles& files_;
  const Path path_;
  std::unique_ptr<WritableFile> real_;
};

void FaultyFiles::fail_at(std::uint64_t call, Fault fault) {
  const std::lock_guard lock(mutex_);
  at_ = calls_ + call;
  fault_ = fault;
}

std::uint64_t FaultyFiles::calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
}

Path FaultyFiles::failed_path() const {
  const std::lock_guard lock(mutex_);
  return failed_;
}

std::optional<Fault> FaultyFiles::count(const Path& path) {
  const std::lock_guard lock(mutex_);
  if (down_) return Fault::kPowerLoss;
  if (calls_++ != at_) return std::nullopt;
  down_ = fault_ == Fault::kPowerLoss;
  failed_ = path;
  return fault_;
}

Status FaultyFiles::change(const Path& path) {
  if (const auto fault = count(path)) return fault_error(path, *fault);
  return ok();
}

Status FaultyFiles::alive(const Path& path) const {
  const std::lock_guard lock(mutex_);
  if (down_) return fault_error(path, Fault::kPowerLoss);
  return ok();
}

Result<std::unique_ptr<WritableFile>> FaultyFiles::open(const Path& path, Open how) {
  MUSTER_TRY(change(path));
  MUSTER_ASSIGN(auto real, real_.open(path, how));
  return std::make_unique<File>(*this, path, std::move(real));
}

Result<std::unique_ptr<MappedFile>> FaultyFiles::map(const Path& path) {
  MUSTER_TRY(alive(path));
  return real_.map(path);
}

Result<std::string> FaultyFiles::read(const Path& path) {
  MUSTER_TRY(alive(path));
  return real_.read(path);
}

Result<std::string> FaultyFiles::read_up_to(const Path& path, std::size_t most) {
  MUSTER_TRY(alive(path));
  return real_.read_up_to(path, most);
}

Result<std::size_t> FaultyFiles::read_at(const Path& path, std::uint64_t offset,
                                         std::span<std::byte> into) {
  MUSTER_TRY(alive(path));
  return real_.read_at(path, offset, into);
}

Result<std::vector<std::string>> FaultyFiles::list(const Path& folder) {
  MUSTER_TRY(alive(folder));
  return real_.list(folder);
}

Status FaultyFiles::create_folders(const Path& folder) {
  MUSTER_TRY(change(folder));
  return real_.create_folders(folder);
}

Status FaultyFiles::rename(const Path& from, const Path& to) {
  MUSTER_TRY(change(from));
  return real_.rename(from, to);
}

Status FaultyFiles::link(const Path& target, const Path& at) {
  MUSTER_TRY(change(at));
  return real_.link(target, at);
}

Status FaultyFiles::remove_all(const Path& path) {
  MUSTER_TRY(alive(path));
  const auto fault = count(path);
  if (!fault) return real_.remove_all(path);
  // As with many files: some are gone when it fails, and nobody says in which order.
  const auto names = real_.list(path);
  if (names && !names->empty()) MUSTER_TRY(real_.remove_all(path / names->back()));
  return fault_error(path, *fault);
}

Status FaultyFiles::sync_folder(const Path& folder) {
  MUSTER_TRY(change(folder));
  return real_.sync_folder(folder);
}

Result<std::uint64_t> FaultyFiles::size(const Path& path) {
  MUSTER_TRY(alive(path));
  return real_.size(path);
}

bool FaultyFiles::exists(const Path& path) { return alive(path) && real_.exists(path); }

Result<std::unique_ptr<FileLock>> FaultyFiles::lock(const Path& path) {
  MUSTER_TRY(change(path));
  return real_.lock(path);
}

}  // namespace muster::testing
