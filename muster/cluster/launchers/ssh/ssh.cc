#include "muster/cluster/launchers/ssh/ssh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "muster/base/shell_words.h"

namespace muster::cluster {
namespace {

// Nobody is there to answer, and a host that is not known is not trusted. One that falls silent is
// given up after 15 s. A connection for each worker, which ends with it.
constexpr std::string_view kOptions[] = {"BatchMode=yes",         "StrictHostKeyChecking=yes",
                                         "ConnectTimeout=10",     "ServerAliveInterval=5",
                                         "ServerAliveCountMax=3", "ClearAllForwardings=yes",
                                         "ForwardAgent=no",       "ForwardX11=no",
                                         "ControlMaster=no",      "PermitLocalCommand=no",
                                         "RequestTTY=no",         "LogLevel=ERROR"};

// What to do where ssh says this; the first that it says. {0}: the host.
struct Cure {
  std::string_view said;
  std::string_view text;
};
constexpr Cure kCures[] = {
    {"IDENTIFICATION HAS CHANGED",
     "it is not the host that this name was known for: where you know why (it was installed anew), "
     "forget the old key with `ssh-keygen -R {0}` and log in once by hand, `ssh {0}`"},
    {"Host key verification failed",
     "this host does not know it yet: log in once by hand, `ssh {0}`, compare the fingerprint that "
     "is shown with that of `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` there, and say yes"},
    {"host key is known for",
     "this host does not know it yet: log in once by hand, `ssh {0}`, compare the fingerprint that "
     "is shown with that of `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` there, and say yes"},
    {"Permission denied",
     "it lets nobody in without a password: put a key there with `ssh-copy-id {0}`, and where the "
     "key has a passphrase hand it to ssh-agent with `ssh-add`"},
    {"Could not resolve hostname",
     "expected a name that `ssh {0}` finds: of ~/.ssh/config, /etc/hosts or the name service"},
    {"Connection refused", "no sshd listens there: install openssh-server, and see its port"},
    {"timed out", "is it switched on, and does a firewall let ssh through? Try `ssh {0}`"},
    {"No route to host", "is it switched on, and in this network? Try `ssh {0}`"},
};

bool says(const std::vector<std::string>& lines, std::string_view what) {
  return std::ranges::any_of(
      lines, [&](const std::string& line) { return line.find(what) != std::string::npos; });
}

// The last line of several says what it all comes to; the one before it often why.
std::string last_of(const std::vector<std::string>& said) {
  std::vector<std::string> lines;
  for (const std::string& line : said) {
    const auto end = line.find_last_not_of(" \t\r");
    if (end != std::string::npos) lines.push_back(line.substr(0, end + 1));
  }
  constexpr std::size_t kMost = 2;
  const std::size_t first = lines.size() > kMost ? lines.size() - kMost : 0;
  return fmt::format(
      "{}", fmt::join(lines.begin() + static_cast<std::ptrdiff_t>(first), lines.end(), " / "));
}

class Ssh final : public RemoteShell {
 public:
  std::string name() const override { return "ssh"; }

  ProcessSpec process_for(const std::string& host, std::string_view script,
                          std::string input) const override {
    ProcessSpec spec{.command = {"ssh"}, .environment = {}, .folder = {}, .cores = {}};
    for (const std::string_view option : kOptions) {
      spec.command.emplace_back("-o");
      spec.command.emplace_back(option);
    }
    // Whatever shell the person has there.
    spec.command.insert(spec.command.end(), {"--", host, "exec sh -c " + shell_quoted(script)});
    spec.input = std::move(input);
    return spec;
  }

  std::string explain(const std::string& host,
                      const std::vector<std::string>& said) const override {
    const std::string words = last_of(said);
    const auto* cure =
        std::ranges::find_if(kCures, [&](const Cure& each) { return says(said, each.said); });
    std::string told = words.empty() ? "ssh ended without a word" : "ssh says: " + words;
    told += "\n    ";
    return told + (cure == std::end(kCures) ? fmt::format("try `ssh {} true`", host)
                                            : fmt::format(fmt::runtime(cure->text), host));
  }
};

}  // namespace

std::unique_ptr<RemoteShell> create_ssh() { return std::make_unique<Ssh>(); }

}  // namespace muster::cluster
