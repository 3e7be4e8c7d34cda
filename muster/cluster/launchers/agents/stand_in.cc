#include "muster/cluster/launchers/agents/stand_in.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "muster/base/system_error.h"

namespace muster::cluster {
namespace {

// Until what did not fit is tried again: its reader is behind.
constexpr Duration kRetry = std::chrono::milliseconds(5);

class RemoteProcess final : public Process {
 public:
  RemoteProcess(std::shared_ptr<StandIn> stand_in, std::function<void()> kill, UniqueFd output,
                UniqueFd error, UniqueFd end)
      : stand_in_(std::move(stand_in)),
        kill_(std::move(kill)),
        output_(std::move(output)),
        error_(std::move(error)),
        end_(std::move(end)) {}
  RemoteProcess(const RemoteProcess&) = delete;
  RemoteProcess& operator=(const RemoteProcess&) = delete;
  ~RemoteProcess() override {
    if (!poll()) kill_();
  }
  int pid() const noexcept override { return 0; }  // there is none here
  int end_fd() const noexcept override { return end_.get(); }
  int output_fd() const noexcept override { return output_.get(); }
  int error_fd() const noexcept override { return error_.get(); }
  Status signal(int /*number*/) override {
    kill_();
    return ok();
  }
  std::optional<ProcessEnd> poll() override { return stand_in_->over(); }

 private:
  const std::shared_ptr<StandIn> stand_in_;
  const std::function<void()> kill_;
  const UniqueFd output_, error_, end_;
};

struct Pair {
  UniqueFd here, there;
};
// A pipe would raise SIGPIPE where its reader is gone.
Result<Pair> create_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return system_error("cluster/agents", "socketpair", errno);
  return Pair{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace

StandIn::StandIn(net::Loop& loop, UniqueFd output, UniqueFd error, UniqueFd end)
    : loop_(loop),
      output_{std::move(output), {}},
      error_{std::move(error), {}},
      end_fd_(std::move(end)) {}

Result<StandIn::Made> StandIn::create(net::Loop& loop, std::function<void()> kill) {
  MUSTER_ASSIGN(Pair output, create_pair());
  MUSTER_ASSIGN(Pair error, create_pair());
  UniqueFd end(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  UniqueFd seen(::fcntl(end.get(), F_DUPFD_CLOEXEC, 0));
  if (end.get() < 0 || seen.get() < 0) return system_error("cluster/agents", "eventfd", errno);
  const std::shared_ptr<StandIn> made(
      new StandIn(loop, std::move(output.here), std::move(error.here), std::move(end)));
  auto process = std::make_unique<RemoteProcess>(made, std::move(kill), std::move(output.there),
                                                 std::move(error.there), std::move(seen));
  return Made{made, std::move(process)};
}

std::optional<ProcessEnd> StandIn::over() const {
  const std::lock_guard lock(mutex_);
  return over_;
}

void StandIn::take_output(bool is_error, const Bytes& text) {
  if (end_) return;
  (is_error ? error_ : output_)
      .pending.append(reinterpret_cast<const char*>(text.data()), text.size());
  flush();
}

void StandIn::take_end(const ProcessEnd& end) {
  if (end_) return;
  end_ = end;
  flush();
}

// Whether nothing is left.
bool StandIn::send(Stream& stream) {
  while (!stream.pending.empty()) {
    const auto sent = ::send(stream.fd.get(), stream.pending.data(), stream.pending.size(),
                             MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return false;
    if (sent < 0) break;  // nobody reads it any more
    stream.pending.erase(0, static_cast<std::size_t>(sent));
  }
  stream.pending.clear();
  return true;
}

void StandIn::flush() {
  retry_ = nullptr;
  const bool is_output_sent = send(output_);
  const bool is_error_sent = send(error_);
  if (!is_output_sent || !is_error_sent) {
    retry_ = loop_.call_at(loop_.clock().now() + kRetry, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->flush();
    });
    return;
  }
  if (!end_) return;
  output_.fd.reset();
  error_.fd.reset();
  {
    const std::lock_guard lock(mutex_);
    over_ = end_;
  }
  const std::uint64_t once = 1;
  static_cast<void>(::write(end_fd_.get(), &once, sizeof(once)));
}

}  // namespace muster::cluster
