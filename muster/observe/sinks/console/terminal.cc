#include "muster/observe/sinks/console/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace muster::observe {
namespace {

constexpr int kUnknownWidth = 80;

class SystemTerminal final : public Terminal {
 public:
  explicit SystemTerminal(int descriptor) : descriptor_(descriptor) {}

  bool is_terminal() const override { return ::isatty(descriptor_) == 1; }

  int width() const override {
    winsize size{};
    if (::ioctl(descriptor_, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUnknownWidth;
    return size.ws_col;
  }

  void write(std::string_view text) override {
    while (!text.empty()) {
      const ssize_t written = ::write(descriptor_, text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) {
        if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG) lost_ = true;
        return;
      }
      text.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  bool lost() const override { return lost_; }

 private:
  int descriptor_;
  std::atomic<bool> lost_ = false;
};

}  // namespace

std::unique_ptr<Terminal> open_terminal(int file_descriptor) {
  return std::make_unique<SystemTerminal>(file_descriptor);
}

}  // namespace muster::observe
