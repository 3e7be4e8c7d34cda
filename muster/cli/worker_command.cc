#include "muster/cli/worker_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>

#include "muster/app/join/join.h"
#include "muster/app/join/orders.h"
#include "muster/base/pause.h"
#include "muster/base/units.h"
#include "muster/cli/application.h"
#include "muster/cli/json_line.h"
#include "muster/cli/machine.h"

namespace muster::cli {
namespace {

constexpr Duration kLongestTimeout = std::chrono::hours(24);

struct WorkerArguments {
  std::string join;
  std::string credentials;
  std::int32_t lanes = 0;
  std::string join_timeout = "1 min";
  bool from_input = false;
};

struct InvitationText {
  std::string address;  // empty: not said
  std::string credentials;
};

// "host:port credentials", as the launcher writes it, or the credentials alone.
InvitationText read_invitation(const std::string& text) {
  std::istringstream words(text);
  InvitationText invitation;
  words >> invitation.address >> invitation.credentials;
  if (invitation.credentials.empty()) std::swap(invitation.address, invitation.credentials);
  return invitation;
}

Result<InvitationText> invitation_text(const WorkerArguments& arguments, Context& context) {
  if (!arguments.credentials.empty()) {
    auto text = context.files.read(arguments.credentials);
    if (!text)
      return with_context(text.error(),
                          "[worker] --credentials: the launcher keeps it as join.key "
                          "in the run's folder while it runs");
    return read_invitation(*text);
  }
  const auto variable = context.environment.find(net::kCredentialsVariable);
  if (variable != context.environment.end()) return read_invitation(variable->second);
  return fail(ErrorCode::kInvalid,
              fmt::format("[worker] --credentials FILE is missing: the launcher keeps it as "
                          "join.key in the run's folder; {} may hold its text as well",
                          net::kCredentialsVariable));
}

Result<app::Invitation> invitation(const WorkerArguments& arguments, Context& context) {
  MUSTER_ASSIGN(InvitationText text, invitation_text(arguments, context));
  if (!arguments.join.empty()) text.address = arguments.join;
  if (text.address.empty())
    return fail(ErrorCode::kInvalid,
                "[worker] --join HOST:PORT is missing, and the credentials do not say it either");
  MUSTER_ASSIGN(auto coordinator, net::parse_address(text.address));
  return app::Invitation{std::move(coordinator), std::move(text.credentials)};
}

Result<Duration> join_timeout(const WorkerArguments& arguments) {
  auto timeout = parse_duration(arguments.join_timeout);
  if (timeout && *timeout >= Duration{0} && *timeout <= kLongestTimeout) return timeout;
  return fail(ErrorCode::kInvalid,
              fmt::format("[worker] --join-timeout: expected a duration such as `30s` or `5 min`, "
                          "at most 24 h, found `{}`",
                          arguments.join_timeout));
}

void show(std::string_view line, Context& context) {
  const bool json = context.log == LogFormat::kJson;
  context.out << (json ? json_line({{"level", "info"}, {"message", line}})
                       : fmt::format("{}\n", line))
              << std::flush;
}

void tell(std::string_view line, Context& context) {
  const bool json = context.log == LogFormat::kJson;
  show(json ? std::string(line) : context.fitted_to_out(line), context);
}

// Whoever has started this over a remote shell writes one line at once.
Result<app::Orders> orders_from_input(Clock& clock) {
  constexpr std::chrono::seconds kPatience{30};
  constexpr std::chrono::milliseconds kPause{5};
  const Deadline deadline = Deadline::after(clock, kPatience);
  std::string line;
  while (line.find('\n') == std::string::npos) {
    MUSTER_ASSIGN(const std::string more, net::read_available(STDIN_FILENO));
    line += more;
    if (!more.empty()) continue;
    if (deadline.left(clock) <= Duration{0})
      return fail(
          ErrorCode::kInvalid,
          "[worker] --from-input: nothing has come; it is for the launcher of a job on several "
          "hosts");
    pause(clock, kPause);
  }
  return app::read_orders(line);
}

// Each to where its worker wrote it.
void show_apart(bool is_error, std::string_view line, Context& context) {
  if (!is_error) return show(line, context);
  context.err << line << std::endl;
}

// A worker of the launcher's own: it lives while the launcher does.
Result<ExitCode> work_by_orders(Context& context) {
  MUSTER_ASSIGN(const app::Orders orders, orders_from_input(context.clock));
  MUSTER_ASSIGN(auto program, worker_program(context));
  const app::JoinOptions options{
      .invitation = [&] { return orders.invitation; },
      .scratch = context.machine.temporary_folder(),
      .worker_program = std::move(program),
      .tell = [&context](std::string_view line) { tell(line, context); },
      .show = [&context](bool is_error,
                         std::string_view line) { show_apart(is_error, line, context); },
      .fields = context.fields,
      .orders = orders,
      .leash = STDIN_FILENO};
  return app::join_job(options, system_processes(), context.files, context.logger());
}

Result<ExitCode> work(const WorkerArguments& arguments, Context& context) {
  if (arguments.from_input) return work_by_orders(context);
  MUSTER_ASSIGN(const Duration timeout, join_timeout(arguments));
  MUSTER_ASSIGN(auto program, worker_program(context));
  const app::JoinOptions options{
      .invitation = [&] { return invitation(arguments, context); },
      .scratch = context.machine.temporary_folder(),
      .worker_program = std::move(program),
      .lanes = arguments.lanes,
      .join_timeout = timeout,
      .tell = [&context](std::string_view line) { tell(line, context); },
      .show = [&context](bool, std::string_view line) { show(line, context); },
      .fields = context.fields};
  return app::join_job(options, system_processes(), context.files, context.logger());
}

}  // namespace

void add_worker_command(CLI::App& app, Context& context) {
  CLI::App& command =
      add_command(app, "worker", "Add a worker on this host to a job that another one has launched",
                  {"muster worker --join 10.0.0.5:29400 --credentials runs/fashion/latest/join.key",
                   "ssh node7 muster worker --join node1:29400 --credentials join.key --lanes 4"});
  const auto arguments = std::make_shared<WorkerArguments>();
  command
      .add_option("--join", arguments->join,
                  "Where the launcher listens (workers.listen); by default as FILE says")
      ->type_name("HOST:PORT");
  command
      .add_option("--credentials", arguments->credentials,
                  "join.key of the run's folder, or a copy of it")
      ->type_name("FILE");
  command.add_option("--lanes", arguments->lanes, "Threads that compute; by default one a core")
      ->check(CLI::Range(1, 65536))
      ->type_name("N");
  command
      .add_option("--join-timeout", arguments->join_timeout,
                  "How long to look for a launcher that is not there yet")
      ->capture_default_str()
      ->type_name("DURATION");
  command
      .add_flag("--from-input", arguments->from_input,
                "As its launcher says, which starts it on another host")
      ->excludes("--join")
      ->excludes("--credentials");
  command.callback([arguments, &context] {
    context.action = [arguments, &context] {
      const auto code = work(*arguments, context);
      return code ? *code : report(context, code.error());
    };
  });
}

}  // namespace muster::cli
