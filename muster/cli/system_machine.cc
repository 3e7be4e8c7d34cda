// The Machine that is there: Linux calls.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>

#include "muster/app/engines/measure_link.h"
#include "muster/base/exit_code.h"
#include "muster/base/process.h"
#include "muster/base/system_error.h"
#include "muster/base/unique_fd.h"
#include "muster/cli/machine.h"
#include "muster/net/reach.h"

namespace muster::cli {
namespace {

Error call_failed(const char* call) { return system_error("doctor", call, errno); }

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<std::uint64_t> number_in(const char* path) {
  std::istringstream line(first_line(path));
  std::uint64_t number = 0;
  if (line >> number) return number;
  return std::nullopt;
}

std::uint64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::uint64_t kib = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    if (words >> key >> kib && key == "MemAvailable:") return kib * 1024;
  }
  return 0;
}

// Of a program that ended so after it said `text`.
Error bad_end(const std::string& program, const ProcessEnd& end, const std::string& text) {
  if (end.signal) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("{} was ended by {}{}", program, ::strsignal(*end.signal),
                            end.signal == SIGKILL ? ": had it too little memory?" : ""));
  }
  const int code = end.exit_status.value_or(0);
  const std::string said = text.substr(0, text.find_last_not_of('\n') + 1);
  return fail(error_code(code),
              said.empty()
                  ? fmt::format("{} ended with exit code {} and said nothing", program, code)
                  : said);
}

// For documentation (RFC 5737): the way there is the way to everybody who is not near.
constexpr std::string_view kElsewhere = "198.51.100.1";

// Of a kind that other hosts can be told; else empty.
std::string text_of(const sockaddr& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.sa_family == AF_INET) {
    const auto& narrow = reinterpret_cast<const sockaddr_in&>(address);
    ::inet_ntop(AF_INET, &narrow.sin_addr, text, sizeof text);
  } else if (address.sa_family == AF_INET6) {
    const auto& wide = reinterpret_cast<const sockaddr_in6&>(address);
    if (!IN6_IS_ADDR_LINKLOCAL(&wide.sin6_addr))
      ::inet_ntop(AF_INET6, &wide.sin6_addr, text, sizeof text);
  }
  return text;
}

// Good where this host does not have the family.
template <class Address>
Status listen_at(const Address& address, const std::string& name) {
  const auto* plain = reinterpret_cast<const sockaddr*>(&address);
  const UniqueFd socket(::socket(plain->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool wide = plain->sa_family == AF_INET6;
  if (!socket && wide && errno == EAFNOSUPPORT) return ok();
  if (!socket) return call_failed("socket");
  const int on = 1;  // as those who listen have it: what has ended does not stand in the way
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (wide) ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (::bind(socket.get(), plain, sizeof address) != 0) {
    if (wide && errno == EADDRNOTAVAIL) return ok();
    return call_failed(("bind to " + name).c_str());
  }
  if (::listen(socket.get(), 1) != 0) return call_failed(("listen on " + name).c_str());
  return ok();
}

std::string read_some(int fd) {  // empty: the end
  std::string bytes(4096, '\0');
  ssize_t count = 0;
  do {
    count = ::read(fd, bytes.data(), bytes.size());
  } while (count < 0 && errno == EINTR);
  bytes.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return bytes;
}

// What a child writes; errors it writes are for nobody.
class ChildOutput {
 public:
  explicit ChildOutput(Process& child)
      : child_(child),
        wanted_{{child.output_fd(), POLLIN, 0},
                {child.error_fd(), POLLIN, 0},
                {child.end_fd(), POLLIN, 0}} {}

  // Until it has ended, or there is a line.
  enum class Until { kFirstLine, kAll };
  Status read(std::chrono::milliseconds limit, Until until) {
    const auto end = std::chrono::steady_clock::now() + limit;
    auto& [output, error, over] = wanted_;
    while ((output.fd >= 0 || over.fd >= 0) && !(until == Until::kFirstLine && line())) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          end - std::chrono::steady_clock::now());
      const int ready = left.count() <= 0 ? 0 : ::poll(wanted_, 3, static_cast<int>(left.count()));
      if (ready == 0) return fail(ErrorCode::kTimeout, "it did not answer in time");
      if (ready < 0) continue;
      for (pollfd* stream : {&output, &error}) {
        if (stream->fd < 0 || stream->revents == 0) continue;
        const std::string bytes = read_some(stream->fd);
        if (bytes.empty()) stream->fd = -1;
        if (stream == &output) text_ += bytes;
      }
      // Whatever it left running goes with it, and lets go of its output.
      if (over.revents != 0 && child_.poll()) over.fd = -1;
    }
    return ok();
  }

  const std::string& text() const noexcept { return text_; }
  std::optional<std::string> line() const {  // the first, if it is whole
    const auto end = text_.find('\n');
    return end == text_.npos ? std::nullopt : std::optional(text_.substr(0, end + 1));
  }
  void forget() { text_.clear(); }

 private:
  Process& child_;
  pollfd wanted_[3];
  std::string text_;
};

class SystemMachine final : public Machine {
 public:
  std::string host() override {
    char name[256] = {};
    return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
  }

  double cores() override {
    cpu_set_t set;
    CPU_ZERO(&set);
    double cores = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    std::istringstream quota(first_line("/sys/fs/cgroup/cpu.max"));
    double time = 0;
    double period = 0;
    if (quota >> time >> period && period > 0) cores = std::min(cores, time / period);
    return cores;
  }

  MemoryFacts memory() override {
    struct sysinfo info {};
    ::sysinfo(&info);
    MemoryFacts facts{static_cast<std::uint64_t>(info.totalram) * info.mem_unit,
                      available_memory()};
    const auto limit = number_in("/sys/fs/cgroup/memory.max");
    if (!limit || *limit >= facts.total) return facts;
    facts.total = *limit;
    const auto used = number_in("/sys/fs/cgroup/memory.current").value_or(0);
    facts.available = std::min(facts.available, *limit - std::min(*limit, used));
    return facts;
  }

  std::vector<std::string> instruction_sets() override {
    std::vector<std::string> sets;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx")) sets.emplace_back("avx");
    if (__builtin_cpu_supports("avx2")) sets.emplace_back("avx2");
    if (__builtin_cpu_supports("fma")) sets.emplace_back("fma");
    if (__builtin_cpu_supports("avx512f")) sets.emplace_back("avx512");
#endif
    return sets;
  }

  std::uint64_t open_file_limit() override {
    rlimit limit{};
    return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
  }

  std::optional<std::uint64_t> file_size_limit() override {
    rlimit limit{};
    const bool known = ::getrlimit(RLIMIT_FSIZE, &limit) == 0;
    return known && limit.rlim_cur != RLIM_INFINITY ? std::optional(limit.rlim_cur) : std::nullopt;
  }

  std::vector<app::EngineTrial> try_engines() override { return app::try_engines(); }
  Result<comm::MeasuredLink> measure_link(comm::Wire wire) override {
    return app::measure_link(wire);
  }

  Status bind_loopback() override {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return listen_at(address, "127.0.0.1");
  }

  Status bind_everywhere(std::uint16_t port) override {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    MUSTER_TRY(listen_at(address, fmt::format("0.0.0.0:{}", port)));
    sockaddr_in6 wide{};
    wide.sin6_family = AF_INET6;
    wide.sin6_port = htons(port);
    return listen_at(wide, fmt::format("[::]:{}", port));
  }

  std::vector<HostAddress> addresses() override {
    std::vector<HostAddress> found;
    ifaddrs* all = nullptr;
    if (::getifaddrs(&all) != 0) return found;
    for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
      if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0) continue;
      if ((one->ifa_flags & IFF_LOOPBACK) != 0) continue;
      if (std::string text = text_of(*one->ifa_addr); !text.empty())
        found.push_back({std::move(text), one->ifa_name});
    }
    ::freeifaddrs(all);
    const auto out = net::local_host_towards({std::string(kElsewhere), 9});  // sends nothing
    std::ranges::stable_partition(
        found, [&](const HostAddress& address) { return out && address.text == *out; });
    return found;
  }

  Status create_shared_memory() override {
    constexpr std::size_t kSize = 1 << 20;
    const UniqueFd memory(::memfd_create("muster-doctor", MFD_CLOEXEC));
    if (!memory) return call_failed("memfd_create");
    if (::ftruncate(memory.get(), kSize) != 0) return call_failed("ftruncate");
    void* at = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
    if (at == MAP_FAILED) return call_failed("mmap");
    std::memset(at, 1, kSize);
    ::munmap(at, kSize);
    return ok();
  }

  Result<std::uint64_t> free_space(const Path& folder) override {
    struct statvfs facts {};
    if (::statvfs(folder.c_str(), &facts) != 0) return call_failed("statvfs");
    return static_cast<std::uint64_t>(facts.f_bavail) * facts.f_frsize;
  }

  Path temporary_folder() override { return std::filesystem::temp_directory_path(); }

  Path folder() override {
    std::error_code gone;
    return std::filesystem::current_path(gone);
  }

  bool can_be_started(const Path& program) override {
    using std::filesystem::perms;
    std::error_code error;
    const auto status = std::filesystem::status(program, error);
    const perms any = perms::owner_exec | perms::group_exec | perms::others_exec;
    return status.type() == std::filesystem::file_type::regular &&
           (status.permissions() & any) != perms::none;
  }

  bool is_regular_file(const Path& path) override {
    std::error_code missing;
    return std::filesystem::is_regular_file(path, missing);
  }

  bool is_same_file(const Path& one, const Path& other) override {
    std::error_code missing;
    return std::filesystem::equivalent(one, other, missing);
  }

  std::optional<Path> behind_link(const Path& link) override {
    std::error_code error;
    Path target = std::filesystem::read_symlink(link, error);
    return error ? std::nullopt : std::optional(std::move(target));
  }

  Status write_in(const Path& folder) override {
    const auto path = folder / fmt::format(".muster-doctor-{}", ::getpid());
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file) return call_failed("create a file");
    ::unlink(path.c_str());
    return ok();
  }

  std::optional<bool> clock_is_synchronised() override {
    timex facts{};
    const int state = ::adjtimex(&facts);
    if (state < 0) return std::nullopt;
    return state != TIME_ERROR && (facts.status & STA_UNSYNC) == 0;
  }

  Result<std::string> output_of(const std::vector<std::string>& command,
                                std::chrono::milliseconds limit) override {
    return output_in_two(command, limit, {});
  }

  Result<std::string> output_in_two(const std::vector<std::string>& command,
                                    std::chrono::milliseconds limit,
                                    const GoesOn& goes_on) override {
    ProcessSpec spec{.command = command, .environment = {}, .folder = {}, .cores = {}};
    if (goes_on) spec.held_signals = {SIGUSR1};
    MUSTER_ASSIGN(const auto child, system_processes().spawn(spec));
    ChildOutput output(*child);
    if (goes_on) {
      MUSTER_TRY(output.read(limit, ChildOutput::Until::kFirstLine));
      const std::optional<std::string> line = output.line();
      const std::optional<bool> more = line ? goes_on(*line) : std::nullopt;
      if (more && !*more) return *line;
      if (more) output.forget();
      if (line) MUSTER_TRY(child->signal(SIGUSR1));
    }
    MUSTER_TRY(output.read(limit, ChildOutput::Until::kAll));
    const ProcessEnd end = child->poll().value_or(ProcessEnd{});
    if (end.exit_status == 0) return output.text();
    return bad_end(command.front(), end, output.text());
  }
};

}  // namespace

Machine& system_machine() noexcept {
  static SystemMachine machine;
  return machine;
}

}  // namespace muster::cli
