// Preloaded into a process, makes its disk slow: a write to a file whose path has $MUSTER_SLOW_DISK
// in it takes 2 ms more, an fsync 30 ms, or $MUSTER_SLOW_FSYNC.
#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

void wait_for_disk(int fd, useconds_t microseconds) {
  const char* folder = std::getenv("MUSTER_SLOW_DISK");
  if (folder == nullptr) return;
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = ::readlink(link.c_str(), path.data(), path.size());
  if (length > 0 && std::string_view(path.data(), static_cast<std::size_t>(length)).find(folder) !=
                        std::string_view::npos)
    ::usleep(microseconds);
}

useconds_t of_fsync() {
  const char* milliseconds = std::getenv("MUSTER_SLOW_FSYNC");
  return milliseconds == nullptr ? 30'000 : static_cast<useconds_t>(1000 * std::atoi(milliseconds));
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" ssize_t write(int fd, const void* bytes, size_t size) {
  wait_for_disk(fd, 2'000);
  return next<decltype(write)>("write")(fd, bytes, size);
}

extern "C" int fsync(int fd) {
  wait_for_disk(fd, of_fsync());
  return next<decltype(fsync)>("fsync")(fd);
}
