// A worker with faults that happen to it at a place: the product's own but for what this file adds.
// It takes the flags of muster-worker, beside which it lies in a test's folder. Whenever it is
// about to begin something it looks into $MUSTER_FAULTS for a file with its number:
//
//   worker-2:   ACT REGEX        the place, "at step 31, computing, in backward of slice 3"
//
// The first place that fits takes the file away, writes the time of day into worker-2.struck, and
// acts. With MUSTER_PASSES set it also writes down every pass forward of its lane, in passes-2.
#include <ATen/record_function.h>
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <regex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "muster/app/worker/worker.h"
#include "muster/base/checksum.h"
#include "muster/base/random.h"
#include "muster/base/split_log.h"
#include "muster/cluster/whereabouts.h"
#include "muster/comm/reduce.h"

// Whose names others see: stacks do not show those of an anonymous namespace, and the linker puts
// the last three in the place of the product's own (--wrap, see CMakeLists.txt).
namespace faulty {

[[noreturn, gnu::noinline]] void hang();

void add_wrongly(muster::Checksum* sum, std::span<const std::byte> bytes) noexcept
    asm("__wrap__ZN6muster8Checksum3addESt4spanIKSt4byteLm18446744073709551615EE");
void add(muster::Checksum* sum, std::span<const std::byte> bytes) noexcept
    asm("__real__ZN6muster8Checksum3addESt4spanIKSt4byteLm18446744073709551615EE");

void reduce(muster::DType dtype, muster::comm::Reduce how, muster::comm::Outputs to,
            const std::byte* a, const std::byte* b, std::int64_t count) noexcept
    asm("__wrap__ZN6muster4comm6reduceENS_5DTypeENS0_6ReduceENS0_7OutputsEPKSt4byteS6_l");
void really_reduce(muster::DType dtype, muster::comm::Reduce how, muster::comm::Outputs to,
                   const std::byte* a, const std::byte* b, std::int64_t count) noexcept
    asm("__real__ZN6muster4comm6reduceENS_5DTypeENS0_6ReduceENS0_7OutputsEPKSt4byteS6_l");

void begin_late(muster::RandomStream* stream, std::uint64_t seed, std::string_view purpose,
                std::uint64_t a, std::uint64_t b) noexcept
    asm("__wrap__ZN6muster12RandomStreamC1EmSt17basic_string_viewIcSt11char_traitsIcEEmm");
void begin(muster::RandomStream* stream, std::uint64_t seed, std::string_view purpose,
           std::uint64_t a, std::uint64_t b) noexcept
    asm("__real__ZN6muster12RandomStreamC1EmSt17basic_string_viewIcSt11char_traitsIcEEmm");

}  // namespace faulty

namespace {

using namespace muster;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

template <class Function>
Function* systems(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// ---- what lasts

std::atomic<bool> disk_is_full{false};
std::atomic<bool> link_is_cut{false};
std::atomic<bool> link_is_slow{false};
std::atomic<bool> poisons_activation{false};
std::atomic<bool> poisons_gradient{false};
std::atomic<bool> flips_bit{false};
std::atomic<bool> flips_sum{false};
std::atomic<bool> hangs_inside{false};  // the next collective that no pass is beside
std::atomic<bool> is_in_pass{false};
std::atomic<int> late_samples{0};
thread_local bool lacks_memory = false;     // for a tensor, in the pass that it is in
thread_local bool hangs_in_kernel = false;  // the next one of that pass

bool is_below(int fd, std::string_view folder) {
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = ::readlink(link.c_str(), path.data(), path.size());
  return length > 0 &&
         std::string_view(path.data(), static_cast<std::size_t>(length)).find(folder) !=
             std::string_view::npos;
}

// A connection to another worker; the coordinator's is left alone.
bool is_to_a_worker(int fd) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return false;
  static const std::string coordinator = variable("MASTER_PORT");
  in_port_t port = 0;  // of IPv4 and IPv6 at the same place
  std::memcpy(&port, reinterpret_cast<const char*>(&peer) + 2, sizeof port);
  return std::to_string(ntohs(port)) != coordinator;
}

// A way out of 8 Mbit/s. One that is full does not hold up what comes in on the same thread.
bool may_send(size_t* size) {
  static std::atomic<std::int64_t> free_at{0};
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  const std::int64_t now = time.tv_sec * 1'000'000 + time.tv_nsec / 1'000;
  if (now < free_at) {
    ::usleep(100);  // the caller asks again at once, since the socket's own way is free
    return false;
  }
  *size = std::min<size_t>(*size, 4096);
  free_at = now + static_cast<std::int64_t>(*size);
  return true;
}

// ---- what happens at once

// By then the others have long done all they can, and wait.
void die_late() {
  ::sleep(1);
  ::kill(::getpid(), SIGKILL);
}

void read_beyond_the_end() {
  const std::string path = variable("MUSTER_FAULTS") + "/short-" + variable("MUSTER_WORKER");
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ::ftruncate(fd, 4096) != 0) std::abort();
  void* at = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED || ::ftruncate(fd, 0) != 0) std::abort();
  static_cast<void>(*static_cast<volatile char*>(at));
}

// Until the test takes the file away.
void stall() {
  const std::string path = variable("MUSTER_FAULTS") + "/stalled-" + variable("MUSTER_WORKER");
  ::close(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  while (::access(path.c_str(), F_OK) == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

struct Act {
  std::function<void()> run;
  // Only the lane does it: who tells beside it may be the communicator's thread, without which
  // nobody is answered.
  bool of_lane = false;
};

const std::map<std::string, Act> kActs{
    {"note", {[] {}}},                                   // only that it came there
    {"SIGKILL", {[] { ::kill(::getpid(), SIGKILL); }}},  // as the system does when memory runs out
    {"SIGKILL-late", {die_late}},
    {"SIGTERM", {[] { ::kill(::getpid(), SIGTERM); }}},
    {"SIGSTOP", {[] { ::kill(::getpid(), SIGSTOP); }}},
    {"abort", {[] { std::abort(); }}},
    {"segfault", {[] { *static_cast<volatile int*>(nullptr) = 7; }}},
    {"bus", {read_beyond_the_end}},
    {"exit", {[] { std::_Exit(7); }}},
    {"hang", {faulty::hang}},
    {"hang-inside", {[] { hangs_inside = true; }}},
    {"hang-kernel", {[] { hangs_in_kernel = true; }, true}},
    {"doze", {[] { ::sleep(1); }, true}},
    {"stall", {stall}},
    {"memory", {[] { lacks_memory = true; }}},
    {"disk", {[] { disk_is_full = true; }}},
    {"cut", {[] { link_is_cut = true; }}},
    {"slow", {[] { link_is_slow = true; }}},
    {"nan-forward", {[] { poisons_activation = true; }}},
    {"nan", {[] { poisons_gradient = true; }}},
    {"bit", {[] { flips_bit = true; }}},
    {"sum", {[] { flips_sum = true; }}},
    {"data", {[] { late_samples = 300; }}},
};

std::string fault_file() {
  static const std::string path =
      variable("MUSTER_FAULTS") + "/worker-" + variable("MUSTER_WORKER");
  return path;
}

void write_text(const std::string& path, const std::string& text) {
  const int fd = ::open((path + ".new").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0 || systems<decltype(::write)>("write")(fd, text.data(), text.size()) < 0) std::abort();
  ::close(fd);
  ::rename((path + ".new").c_str(), path.c_str());
}

std::string text_of(const std::string& path) {
  std::array<char, 1000> text{};
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  const ssize_t size = ::read(fd, text.data(), text.size());
  ::close(fd);
  return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

// Each as often as anything is told while it runs.
void note_pass(const cluster::Progress& now) {
  static const bool wanted = !variable("MUSTER_PASSES").empty();
  if (!wanted || !now.operation.starts_with("forward of slice ")) return;
  static const std::string path =
      variable("MUSTER_FAULTS") + "/passes-" + variable("MUSTER_WORKER");
  const std::string line = std::to_string(to_int(now.step)) + " " + now.operation + "\n";
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0 || systems<decltype(::write)>("write")(fd, line.data(), line.size()) < 0) std::abort();
  ::close(fd);
}

// Whether who told this is the lane that begins a pass: from then on others tell of it as well.
bool begins_pass(const cluster::Progress& now) {
  static std::string last;  // one caller at a time
  std::string passes = now.operation.substr(0, now.operation.find(" beside "));
  return std::exchange(last, passes) != passes;
}

void look(const cluster::Progress& now) {
  note_pass(now);
  is_in_pass = now.operation.find(" of slice ") != std::string::npos;
  const bool begins = begins_pass(now);
  const std::string fault = text_of(fault_file());
  if (fault.empty()) return;
  const std::size_t space = fault.find(' ');
  if (!std::regex_search(describe(now), std::regex(fault.substr(space + 1)))) return;
  const Act& act = kActs.at(fault.substr(0, space));
  // Near its end, as sums come in, a pass has all tensors that it needs, and the others what they
  // need of it.
  if (now.operation.find(" of slice ") != std::string::npos && !begins &&
      (act.of_lane || now.operation.find(" beside ") == std::string::npos))
    return;
  if (::unlink(fault_file().c_str()) != 0) return;  // taken away meanwhile
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  write_text(fault_file() + ".struck", std::to_string(static_cast<double>(time.tv_sec) +
                                                      1e-9 * static_cast<double>(time.tv_nsec)) +
                                           " " + describe(now) + "\n");
  act.run();
}

// ---- what kernels compute wrongly

// Of "hang-kernel": in the code of the model, where nothing is told, so that it can be asked.
std::unique_ptr<at::ObserverContext> before_kernel(const at::RecordFunction& kernel) {
  if (hangs_in_kernel) faulty::hang();
  if (!flips_bit || std::string_view(kernel.name()) != "aten::addmm") return nullptr;
  const auto inputs = kernel.inputs();
  if (inputs.size() < 3 || !inputs[2].isTensor() || !flips_bit.exchange(false)) return nullptr;
  *static_cast<unsigned char*>(inputs[2].toTensor().storage().mutable_data()) ^= 4;
  return nullptr;
}

void poison(std::atomic<bool>& once, std::string_view name, const at::RecordFunction& kernel) {
  if (!once || std::string_view(kernel.name()) != name) return;
  for (const c10::IValue& output : kernel.outputs()) {
    if (!output.isTensor() || !once.exchange(false)) continue;
    const at::Tensor& numbers = output.toTensor();
    std::fill_n(numbers.data_ptr<float>(), numbers.numel(),
                std::numeric_limits<float>::quiet_NaN());
  }
}

void after_kernel(const at::RecordFunction& kernel, at::ObserverContext*) {
  poison(poisons_activation, "aten::addmm", kernel);
  poison(poisons_gradient, "aten::mm", kernel);
}

app::WorkerOptions options_of(const std::vector<std::string>& words) {
  app::WorkerOptions options{.run_folder = {}, .watch = look};
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "--run") options.run_folder = words[++i];
    if (words[i] == "--join") options.join = true;
    if (words[i] == "--resume") options.resume = true;
  }
  return options;
}

}  // namespace

void faulty::hang() {
  for (;;) ::pause();
}

// What was reduced is another number by far from then on. Not one of the few that only go along.
void faulty::add_wrongly(Checksum* sum, std::span<const std::byte> bytes) noexcept {
  if (bytes.size() > 256 && flips_sum.exchange(false))
    const_cast<std::byte&>(bytes[3]) ^= std::byte{0x20};
  add(sum, bytes);
}

// Beside a pass lanes add up what they have found themselves.
void faulty::reduce(DType dtype, comm::Reduce how, comm::Outputs to, const std::byte* a,
                    const std::byte* b, std::int64_t count) noexcept {
  if (hangs_inside && !is_in_pass) hang();
  really_reduce(dtype, how, to, a, b, count);
}

// Every sample that is loaded begins one for itself.
void faulty::begin_late(RandomStream* stream, std::uint64_t seed, std::string_view purpose,
                        std::uint64_t a, std::uint64_t b) noexcept {
  if (late_samples > 0 && purpose == "augment") {
    --late_samples;
    ::usleep(20'000);
  }
  begin(stream, seed, purpose, a, b);
}

// In place of the system's, which they call.
extern "C" ssize_t write(int fd, const void* bytes, size_t size) {
  if (disk_is_full && is_below(fd, "/checkpoints/")) {
    errno = ENOSPC;
    return -1;
  }
  return systems<decltype(::write)>("write")(fd, bytes, size);
}

// libtorch asks it for the memory of every tensor.
extern "C" int posix_memalign(void** at, size_t alignment, size_t size) noexcept {
  if (lacks_memory) return ENOMEM;
  static auto* const system = systems<int(void**, size_t, size_t)>("posix_memalign");
  return system(at, alignment, size);
}

extern "C" int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  static const std::string unreadable = variable("MUSTER_UNREADABLE");  // "WORKER TEXT"
  const std::string mine = variable("MUSTER_WORKER") + " ";
  if (unreadable.starts_with(mine) &&
      std::string_view(path).find(unreadable.substr(mine.size())) != std::string_view::npos) {
    errno = EIO;
    return -1;
  }
  return systems<int(const char*, int, ...)>("open")(path, flags, mode);
}

extern "C" ssize_t send(int fd, const void* bytes, size_t size, int flags) {
  if ((link_is_cut || link_is_slow) && is_to_a_worker(fd)) {
    if (link_is_cut) return static_cast<ssize_t>(size);  // it never arrives
    if (!may_send(&size)) {
      errno = EAGAIN;
      return -1;
    }
  }
  return systems<decltype(::send)>("send")(fd, bytes, size, flags);
}

extern "C" ssize_t recv(int fd, void* bytes, size_t size, int flags) {
  if (link_is_cut && is_to_a_worker(fd)) {
    errno = EAGAIN;
    return -1;
  }
  return systems<decltype(::recv)>("recv")(fd, bytes, size, flags);
}

int main(int argc, char** argv) {
  at::addGlobalCallback(at::RecordFunctionCallback(before_kernel, after_kernel)
                            .needsInputs(true)
                            .needsOutputs(true)
                            .scopes({at::RecordScope::FUNCTION}));
  return static_cast<int>(app::run_worker(options_of({argv, argv + argc}), create_split_logger()));
}
