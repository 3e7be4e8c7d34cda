#include "muster/base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "muster/base/random.h"
#include "muster/base/system_error.h"
#include "muster/base/unique_fd.h"

namespace muster {
namespace {

Error file_error(std::string_view call, const Path& path, int number = errno) {
  return system_error(fmt::format("files/{}", call), path.native(), number);
}

Error file_error(std::string_view call, const Path& path, const std::error_code& error) {
  return file_error(call, path, error.value());
}

// open(2), again when a signal interrupts it.
UniqueFd open_fd(const Path& path, int flags, mode_t mode = 0666) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return UniqueFd(fd);
}

Result<std::size_t> size_of_fd(const UniqueFd& fd, const Path& path) {
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return file_error("stat", path);
  if (S_ISDIR(status.st_mode)) return file_error("read", path, EISDIR);
  return static_cast<std::size_t>(status.st_size);
}

// To read at any place of it.
struct RegularFile {
  UniqueFd fd;
  std::size_t length;
};

// Opening a named pipe would wait for whoever writes to it.
Result<RegularFile> open_regular(const Path& path) {
  UniqueFd fd = open_fd(path, O_RDONLY | O_NONBLOCK);
  struct stat status {};
  if (!fd) return file_error("open", path);
  if (::fstat(fd.get(), &status) != 0) return file_error("stat", path);
  if (S_ISREG(status.st_mode))
    return RegularFile{std::move(fd), static_cast<std::size_t>(status.st_size)};
  if (S_ISDIR(status.st_mode)) return file_error("read", path, EISDIR);
  return fail(
      ErrorCode::kInvalid,
      fmt::format("[files/open] {} is a pipe or a device, where a file is wanted", path.native()));
}

class SystemWritableFile final : public WritableFile {
 public:
  SystemWritableFile(UniqueFd fd, Path path) : fd_(std::move(fd)), path_(std::move(path)) {}

  Status append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd_.get(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return file_error("write", path_);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return ok();
  }

  Status sync() override {
    if (::fsync(fd_.get()) != 0) return file_error("fsync", path_);
    return ok();
  }

  Status close() override {
    if (::close(fd_.release()) != 0 && errno != EINTR) return file_error("close", path_);
    return ok();
  }

 private:
  UniqueFd fd_;
  Path path_;
};

class SystemMappedFile final : public MappedFile {
 public:
  explicit SystemMappedFile(std::span<std::byte> bytes) : bytes_(bytes) {}
  SystemMappedFile(const SystemMappedFile&) = delete;
  SystemMappedFile& operator=(const SystemMappedFile&) = delete;
  ~SystemMappedFile() override {
    if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
  }
  std::span<const std::byte> bytes() const noexcept override { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

int flags_of(Files::Open how) {
  switch (how) {
    case Files::Open::kTruncate:
      return O_WRONLY | O_CREAT | O_TRUNC;
    case Files::Open::kAppend:
      return O_WRONLY | O_CREAT | O_APPEND;
    case Files::Open::kExclusive:
    case Files::Open::kSecret:
      return O_WRONLY | O_CREAT | O_EXCL;
  }
  return O_RDONLY;
}

Result<std::size_t> read_from(const UniqueFd& fd, const Path& path, std::uint64_t offset,
                              std::span<std::byte> into) {
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t got = ::pread(fd.get(), into.data() + done, into.size() - done,
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error("read", path);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

// Pipes, terminals, devices: what is not there yet may come.
bool is_stream(const UniqueFd& fd) {
  struct stat status {};
  return ::fstat(fd.get(), &status) == 0 && !S_ISREG(status.st_mode);
}

Status wait_for_bytes(const UniqueFd& fd, const Path& path) {
  constexpr int kPatience = 30;  // s
  pollfd wanted{fd.get(), POLLIN, 0};
  const int ready = ::poll(&wanted, 1, kPatience * 1000);
  if (ready > 0 || (ready < 0 && errno == EINTR)) return ok();
  if (ready < 0) return file_error("poll", path);
  return fail(ErrorCode::kTimeout,
              fmt::format("[files/read] {}: nothing came for {} s; does anybody write to it?",
                          path.native(), kPatience));
}

// On from where the last call ended. The descriptor does not block.
Result<std::size_t> read_on(const UniqueFd& fd, const Path& path, std::span<std::byte> into) {
  const bool waits = is_stream(fd);
  std::size_t done = 0;
  while (done < into.size()) {
    if (waits) MUSTER_TRY(wait_for_bytes(fd, path));
    const ssize_t got = ::read(fd.get(), into.data() + done, into.size() - done);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return file_error("read", path);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

class Lock final : public FileLock {
 public:
  explicit Lock(UniqueFd fd) : fd_(std::move(fd)) {}

 private:
  const UniqueFd fd_;  // closing it gives the lock back
};

class SystemFiles final : public Files {
 public:
  Result<std::unique_ptr<WritableFile>> open(const Path& path, Open how) override {
    UniqueFd fd = open_fd(path, flags_of(how), how == Open::kSecret ? 0600 : 0666);
    if (!fd) return file_error("open", path);
    return std::make_unique<SystemWritableFile>(std::move(fd), path);
  }

  Result<std::unique_ptr<MappedFile>> map(const Path& path) override {
    MUSTER_ASSIGN(const auto file, open_regular(path));
    const auto& [fd, length] = file;
    if (length == 0) return std::make_unique<SystemMappedFile>(std::span<std::byte>());
    void* at = ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (at == MAP_FAILED) return file_error("mmap", path);
    return std::make_unique<SystemMappedFile>(
        std::span<std::byte>(static_cast<std::byte*>(at), length));
  }

  Result<std::string> read(const Path& path) override {
    return read_up_to(path, std::numeric_limits<std::size_t>::max());
  }

  Result<std::string> read_up_to(const Path& path, std::size_t most) override {
    // Else opening a named pipe would wait for whoever writes to it.
    const UniqueFd fd = open_fd(path, O_RDONLY | O_NONBLOCK);
    if (!fd) return file_error("open", path);
    MUSTER_ASSIGN(const std::size_t length, size_of_fd(fd, path));
    // Files of /proc and /sys say length 0 and still have text, so read until the end comes.
    std::string text;
    std::size_t done = 0;
    do {
      text.resize(std::min(most, std::max(length, done) + kBlock));
      const auto room = std::as_writable_bytes(std::span(text)).subspan(done);
      MUSTER_ASSIGN(const std::size_t got, read_on(fd, path, room));
      done += got;
    } while (done == text.size() && done < most);
    text.resize(done);
    return text;
  }

  Result<std::size_t> read_at(const Path& path, std::uint64_t offset,
                              std::span<std::byte> into) override {
    MUSTER_ASSIGN(const auto file, open_regular(path));
    const auto& [fd, length] = file;
    if (offset >= length) return std::size_t{0};  // the system refuses offsets that no file has
    return read_from(fd, path, offset, into);
  }

  Result<std::vector<std::string>> list(const Path& folder) override {
    std::vector<std::string> names;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
      names.push_back(entry->path().filename().native());
    }
    if (error) return file_error("list", folder, error);
    std::sort(names.begin(), names.end());
    return names;
  }

  Status create_folders(const Path& folder) override {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) return file_error("mkdir", folder, error);
    return ok();
  }

  Status rename(const Path& from, const Path& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) return file_error("rename", from);
    return ok();
  }

  Status link(const Path& target, const Path& at) override {
    const Path fresh = fresh_name(at);
    if (::symlink(target.c_str(), fresh.c_str()) != 0) return file_error("symlink", fresh);
    if (::rename(fresh.c_str(), at.c_str()) == 0) return ok();
    const int why = errno;
    ::unlink(fresh.c_str());
    return file_error("rename", fresh, why);
  }

  Status remove_all(const Path& path) override {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (error) return file_error("remove", path, error);
    return ok();
  }

  Status sync_folder(const Path& folder) override {
    const UniqueFd fd = open_fd(folder, O_RDONLY | O_DIRECTORY);
    if (!fd) return file_error("open", folder);
    // Some network file systems do not know fsync of a folder, and need none.
    if (::fsync(fd.get()) != 0 && errno != EINVAL) return file_error("fsync", folder);
    return ok();
  }

  Result<std::uint64_t> size(const Path& path) override {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) return file_error("stat", path);
    if (S_ISDIR(status.st_mode)) return file_error("stat", path, EISDIR);
    return static_cast<std::uint64_t>(status.st_size);
  }

  bool exists(const Path& path) override {
    std::error_code error;
    return std::filesystem::exists(path, error);
  }

  Result<std::unique_ptr<FileLock>> lock(const Path& path) override {
    UniqueFd fd = open_fd(path, O_RDWR | O_CREAT);
    if (!fd) return file_error("open", path);
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
      const std::string holder = fmt::format("{}\n", ::getpid());
      if (::ftruncate(fd.get(), 0) != 0 || ::write(fd.get(), holder.data(), holder.size()) < 0)
        return file_error("write", path);
      return std::make_unique<Lock>(std::move(fd));
    }
    if (errno != EWOULDBLOCK) return file_error("lock", path);
    return std::unique_ptr<FileLock>();
  }

 private:
  static constexpr std::size_t kBlock = 4096;
};

Status write_whole(Files& files, const Path& path, std::string_view text) {
  MUSTER_ASSIGN(const auto file, files.open(path, Files::Open::kTruncate));
  MUSTER_TRY(file->append(std::as_bytes(std::span(text))));
  MUSTER_TRY(file->sync());
  return file->close();
}

}  // namespace

Files& system_files() noexcept {
  static SystemFiles files;
  return files;
}

Path fresh_name(const Path& path) {
  return path.native() + fmt::format(".{:016x}.new", system_entropy().next());
}

Status write_atomically(Files& files, const Path& path, std::string_view text) {
  Path fresh = path;
  fresh += ".new";
  Status written = write_whole(files, fresh, text);
  if (written) written = files.rename(fresh, path);
  if (!written) {
    static_cast<void>(files.remove_all(fresh));  // a full disk wants its room back
    return written;
  }
  const Path folder = path.parent_path();
  return files.sync_folder(folder.empty() ? Path(".") : folder);
}

}  // namespace muster
