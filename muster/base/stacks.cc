#include "muster/base/stacks.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "muster/base/files.h"
#include "muster/base/process.h"

namespace muster {
namespace {

constexpr int kMostFrames = 64;
constexpr Duration kLeast = std::chrono::milliseconds(10);     // for one thread, however late it is
constexpr Duration kHandler = std::chrono::milliseconds(500);  // may take so long once it has begun
constexpr int kHandlerFrames = 2;  // the handler's own and the kernel's trampoline

// What the thread that is asked fills in, inside a signal handler: nothing but backtrace(), which
// allocates only when called for the first time. A thread that answers after its time is up finds
// another ticket and leaves the frames alone.
struct Request {
  std::array<void*, kMostFrames> frames{};
  int count = 0;
  std::atomic<std::uint64_t> ticket{0};  // of the thread that may write; 0: none
  sem_t answered{};
};

Request& request() {
  static Request only;
  return only;
}

int asking_signal() { return SIGRTMIN + 3; }

void answer(int, siginfo_t* info, void*) {
  const int number = errno;
  Request& asked = request();
  auto mine = reinterpret_cast<std::uint64_t>(info->si_value.sival_ptr);
  if (asked.ticket.compare_exchange_strong(mine, 0)) {
    asked.count = ::backtrace(asked.frames.data(), kMostFrames);
    ::sem_post(&asked.answered);
  }
  errno = number;
}

void prepare() {
  static std::once_flag once;
  std::call_once(once, [] {
    std::array<void*, 1> frame{};
    ::backtrace(frame.data(), 1);  // loads what it needs
    ::sem_init(&request().answered, 0, 0);
    struct sigaction action {};
    action.sa_sigaction = answer;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    ::sigaction(asking_signal(), &action, nullptr);
  });
}

std::string frame_name(void* address) {
  Dl_info info{};
  if (::dladdr(address, &info) == 0 || info.dli_fname == nullptr) return fmt::format("{}", address);
  const auto offset = [&](const void* from) {
    return static_cast<const char*>(address) - static_cast<const char*>(from);
  };
  const std::string file = Path(info.dli_fname).filename().string();
  if (info.dli_sname == nullptr) return fmt::format("{}+{:#x}", file, offset(info.dli_fbase));
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> plain(
      abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status), std::free);
  return fmt::format("{} + {:#x} ({})", status == 0 ? plain.get() : info.dli_sname,
                     offset(info.dli_saddr), file);
}

// Sends the signal to one thread of this process, with the ticket as its value.
bool ask(int thread, std::uint64_t ticket) {
  siginfo_t info{};
  info.si_code = SI_QUEUE;
  info.si_pid = ::getpid();
  info.si_uid = ::getuid();
  info.si_value.sival_ptr = reinterpret_cast<void*>(ticket);
  return ::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), thread, asking_signal(), &info) == 0;
}

// sem_timedwait() wants the time of day.
bool await_answer(Duration patience) {
  timespec until{};
  ::clock_gettime(CLOCK_REALTIME, &until);
  const auto nanoseconds = until.tv_nsec + patience.count();
  until.tv_sec += nanoseconds / 1'000'000'000;
  until.tv_nsec = nanoseconds % 1'000'000'000;
  int outcome = 0;
  do {
    outcome = ::sem_timedwait(&request().answered, &until);
  } while (outcome != 0 && errno == EINTR);
  return outcome == 0;
}

// Of one that stands still: the innermost frame, as the system knows it (proc_pid_syscall(5)).
std::string place_of(int thread) {
  const auto text = system_files().read(fmt::format("/proc/self/task/{}/syscall", thread));
  const auto last = text ? text->rfind(" 0x") : std::string::npos;
  if (last == std::string::npos) return "";  // it runs, or the system does not say
  const auto address = std::strtoull(text->c_str() + last, nullptr, 16);
  return fmt::format(", in {}", frame_name(reinterpret_cast<void*>(address)));
}

std::string frames_of(int thread, TimePoint until) {
  static std::atomic<std::uint64_t> tickets{0};
  Request& asked = request();
  const std::uint64_t ticket = ++tickets;
  asked.ticket = ticket;
  if (!ask(thread, ticket)) return "  it has ended\n";
  if (!await_answer(std::max(until - system_clock().now(), kLeast))) {
    std::uint64_t unanswered = ticket;
    if (asked.ticket.compare_exchange_strong(unanswered, 0))
      return fmt::format("  it does not answer: {}{}\n", describe_thread(thread), place_of(thread));
    (void)await_answer(kHandler);
  }
  std::string text;
  for (int i = kHandlerFrames; i < asked.count; ++i)
    text += fmt::format("  #{:<2} {}\n", i - kHandlerFrames,
                        frame_name(asked.frames[static_cast<std::size_t>(i)]));
  return text;
}

}  // namespace

std::string describe_stacks(Duration patience) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  prepare();
  const auto threads = system_files().list("/proc/self/task");
  if (!threads) return threads.error().message;
  const TimePoint until = system_clock().now() + patience;
  std::string text;
  for (const std::string& thread : *threads) {
    const auto name = system_files().read("/proc/self/task/" + thread + "/comm");
    text += fmt::format("thread {} {}{}", thread, name ? *name : "?\n",
                        frames_of(std::atoi(thread.c_str()), until));
  }
  return text;
}

}  // namespace muster
