#pragma once
// The one table of control messages, version kControlVersion. Worker and coordinator speak nothing
// else on their connection. Values; encode and decode are pure.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/ids.h"
#include "muster/base/process.h"
#include "muster/base/result.h"
#include "muster/cluster/member_list.h"
#include "muster/net/message.h"

namespace muster::cluster {

using net::Bytes;

// Two musters of different commits tell each other so before either reads a frame whose form may
// differ. The first that anybody sends – Join, Enlist, Attend – says of which commit it is; only
// where that is the same anything else follows, and Failure is how the other one is refused. So
// these four keep their form: fields may be added, and what they had at version 1 stays; what was
// added since may be missing where it is read. Whoever cannot keep to that raises the version,
// which is in the envelope of every message, and that never changes.
inline constexpr std::uint32_t kControlVersion = 1;

// Where a worker is; said at a failure. See Whereabouts.
struct Progress {
  Step step{0};
  std::string phase;           // "updating", …; some are in base/phases.h
  std::string operation;       // "backward of slice 3", "all_reduce sum F32 [8] (gradients/3)"
  std::uint64_t resident = 0;  // bytes of its process in memory; 0: it does not say
  friend bool operator==(const Progress&, const Progress&) = default;
};
// "at step 31, computing and reducing gradients, in backward of slice 3"
std::string describe(const Progress& progress);

enum class StopReason : std::uint8_t { kCheckpointAndExit, kAtOnce };

// How a worker goes that was told to.
enum class Departure : std::uint8_t {
  kWithTheStep,
  kOnceOthersHaveTheState,  // it alone has it yet
  kAllStop,                 // too few would be left
};

// Of a host's clock on the wall, as this is sent; see HostClocks.
struct WallReading {
  WallTime at{};
  Duration on_the_way{};  // what it took to connect, a round trip and more
};

// worker to coordinator
struct Join {
  WorkerInfo info;
  std::string version = {};  // of the muster that it is, or is linked with; empty: it did not say
  std::optional<WallReading> wall = {};
};
struct Enlist {  // from a host that has a worker to offer, before there is one
  std::string host;
  std::int32_t pid = 0;
  std::int32_t worker = -1;  // one of the launcher's own, started there on its behalf; -1: any free
  std::string version = {};  // of that host; empty: of a muster that did not say
  std::string boot_id = {};  // of that host; empty: unknown
  std::optional<WallReading> wall = {};
};
struct Ended {  // from that host, on the connection that holds the place: what it alone has seen
  ProcessEnd end;
  Progress progress;  // where the worker was
  std::vector<std::string> last_lines;
};
struct Heartbeat {
  Progress progress;
};
struct Report {
  Bytes content;  // the observer's own
};
enum class Concerns : std::uint8_t { kAll, kItsHost };  // whom a fault would meet as well
struct Failure {
  Error error;
  Progress progress;
  Concerns concerns = Concerns::kAll;
  Generation generation{0};  // in which a worker met it: error.peer is a rank of that one
};
struct Quarantine {
  Error why;  // of a fault that is this worker's alone
};
// A member that it can hear of no more, or not talk to, or that does not answer in time.
struct Suspect {
  Generation generation{0};
  Error why;  // why.peer: its rank
};
// Of those it was asked to reach (Reach): they and this worker reach each other.
struct Reached {
  std::vector<std::int32_t> workers;
};
// One that it has tried in vain, and tries again.
struct Unreached {
  std::int32_t worker = 0;
  std::string why;
};
struct Leave {
  int signal = 0;  // to it, for which all have stopped; 0: none
};
struct Dumped {
  Bytes content;  // the answer to Dump; the observer's own
};
struct Drain {            // it has been told to go, and does so at the end of a step; also to it
  bool can_stay = false;  // and does, where too few would be left without it
};
// It has the state that the others of its generation have, and could hand it over.
struct Whole {};
struct AskTime {  // of the coordinator's clock; see ClockOffset
  TimePoint asked{};
};

enum class StoreAction : std::uint8_t { kSet, kGet, kAdd, kCompareExchange };
struct StoreRequest {
  std::uint64_t id = 0;  // answered by the StoreReply with the same
  StoreAction action = StoreAction::kSet;
  std::string key;
  Bytes value;
  Bytes expected;
  std::int64_t delta = 0;
};

// coordinator to worker
struct Enlisted {           // the answer to Enlist
  std::int32_t worker = 0;  // reserved while the connection lasts
  std::int32_t workers = 1;
  std::string run_folder;  // on the launcher's host
  std::string job;         // resolved, as YAML
};
struct Welcome {
  Generation generation{0};
  Rank rank{0};
  MemberList members;  // on a connection they go before it, see control_channel.h
  // Nobody was lost: the generation before goes on until all its ranks leave it after one step.
  bool planned = false;
};
// To a newcomer: before it is let in, it and these have to reach each other.
struct Reach {
  std::vector<WorkerInfo> workers;
};
// The answer to Drain, and to whoever is on the way into a training that is over.
struct Dismiss {
  Generation generation{0};  // the next one, without the worker; likewise planned
};
// That to Drain::can_stay, where the worker has to.
struct Stay {};
struct Stop {
  StopReason reason = StopReason::kCheckpointAndExit;
};
struct Dump {          // tell what operations are in flight
  bool stacks = true;  // and where every thread is
};
struct StoreReply {
  std::uint64_t id = 0;
  Bytes value;
  std::int64_t number = 0;
};
struct TellTime {  // the answer to AskTime
  TimePoint asked{};
  TimePoint told{};
};
// Failure is also sent to the workers: why the job ends, error.peer being the culprit.

// worker to worker, at its door
struct Knock {
  std::string door;  // of who knocks: try it
};
struct Knocked {
  std::string why;  // it cannot be reached; empty: it can
};

// What a process was told to train, as all that are started for a job have to be told the same.
struct GivenJob {
  std::string file = {};
  std::vector<std::pair<std::string, std::string>> values = {};  // fields; none: nobody can say
  std::string mistake = {};  // why it cannot be read; empty: it can
};

// An agent to the launcher that has it start workers (launchers/agents/)
struct Attend {
  std::int32_t number = 0;  // from 1
  std::string host = {};
  std::string boot_id = {};  // equal on two: they are on one host
  std::int32_t pid = 0;
  std::vector<std::int32_t> cores = {};  // that its workers may use
  std::string version = {};
  GivenJob job = {};
};
struct ProcessOutput {
  std::uint64_t id = 0;  // as of StartProcess
  bool is_error = false;
  Bytes text;
};
struct ProcessEnded {
  std::uint64_t id = 0;
  ProcessEnd end;
};

// and that launcher to it
struct StartProcess {
  std::uint64_t id = 0;
  std::string input;  // what it reads first
};
struct KillProcess {
  std::uint64_t id = 0;
};
struct JobOver {
  std::int32_t exit_code = 0;
};

using Message =
    std::variant<Join, Enlist, Enlisted, Heartbeat, Report, Failure, Quarantine, Suspect, Reached,
                 Unreached, Leave, Drain, Whole, Dumped, StoreRequest, Welcome, Reach, Dismiss,
                 Stay, Stop, Dump, StoreReply, Knock, Knocked, Ended, AskTime, TellTime, Attend,
                 ProcessOutput, ProcessEnded, StartProcess, KillProcess, JobOver>;

std::string_view name(const Message& message) noexcept;  // "join", …
Bytes encode(const Message& message);
Result<Message> decode(std::span<const std::byte> bytes);

}  // namespace muster::cluster
