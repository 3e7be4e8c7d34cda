#include "muster/base/shared_page.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "muster/base/number.h"
#include "muster/base/system_error.h"
#include "muster/base/unique_fd.h"

namespace muster {
namespace {

Error page_error(std::string_view call) {
  return system_error(fmt::format("shared page/{}", call), "memory for two processes", errno);
}

Result<std::span<std::byte>> map(const UniqueFd& descriptor, std::size_t bytes) {
  void* start = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
  if (start == MAP_FAILED) return page_error("mmap");
  return std::span(static_cast<std::byte*>(start), bytes);
}

std::string file_of(int process, int descriptor) {
  return fmt::format("/proc/{}/fd/{}", process, descriptor);
}

// "4711:12" as where this process finds it.
Result<std::string> path_of(std::string_view address) {
  int numbers[2] = {};
  const std::size_t colon = address.find(':');
  const std::string_view parts[2] = {address.substr(0, colon), colon == address.npos
                                                                   ? std::string_view()
                                                                   : address.substr(colon + 1)};
  for (int i = 0; i < 2; ++i) {
    numbers[i] = number_from<int>(parts[i]).value_or(-1);
    if (numbers[i] < 0)
      return fail(ErrorCode::kInvalid,
                  fmt::format("[shared page] \"{}\" is not the address of one", address));
  }
  return file_of(numbers[0], numbers[1]);
}

}  // namespace

Result<std::unique_ptr<SharedPage>> SharedPage::create(std::size_t bytes) {
  UniqueFd descriptor(::memfd_create("muster-page", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor) return page_error("memfd_create");
  // Sealed against shrinking, so that no process can make another one fault.
  if (::ftruncate(descriptor.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(descriptor.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
    return page_error("ftruncate");
  MUSTER_ASSIGN(const auto mapped, map(descriptor, bytes));
  return std::unique_ptr<SharedPage>(new SharedPage(descriptor.release(), mapped));
}

Result<std::unique_ptr<SharedPage>> SharedPage::open(std::string_view address, std::size_t bytes) {
  MUSTER_ASSIGN(const std::string path, path_of(address));
  UniqueFd descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!descriptor)
    return fail(ErrorCode::kUnavailable, system_error("shared page/open", path, errno).message);
  if (::lseek(descriptor.get(), 0, SEEK_END) < static_cast<off_t>(bytes))
    return fail(ErrorCode::kInvalid, fmt::format("[shared page] {} is too small for one", path));
  MUSTER_ASSIGN(const auto mapped, map(descriptor, bytes));
  return std::unique_ptr<SharedPage>(new SharedPage(descriptor.release(), mapped));
}

SharedPage::~SharedPage() {
  ::munmap(bytes_.data(), bytes_.size());
  ::close(descriptor_);
}

std::string SharedPage::address() const { return fmt::format("{}:{}", ::getpid(), descriptor_); }

std::string SharedPage::path() const { return file_of(::getpid(), descriptor_); }

}  // namespace muster
