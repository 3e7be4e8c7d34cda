#pragma once
// Workers by agents: processes that another launcher (Slurm, an MPI, torchrun) has started, each of
// which starts workers where it is, as the launcher of the job tells it. What ssh is elsewhere.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/exit_code.h"
#include "muster/base/log.h"
#include "muster/base/process.h"
#include "muster/base/result.h"
#include "muster/cluster/messages.h"
#include "muster/net/credentials.h"
#include "muster/net/network.h"

namespace muster::cluster {

// How often both sides say that they are there.
inline constexpr Duration kAgentsBeat = std::chrono::seconds(5);

// The launcher's side. Thread-safe. The destructor lets all go, whose workers end then; outlives
// what start() gives.
class Agents {
 public:
  virtual ~Agents() = default;
  virtual const net::Address& address() const noexcept = 0;  // where they come

  // Blocks until all are there: number n at n-1. kTimeout: who is not; kInvalid: one cannot take
  // part, and why; kPeerLost: one is gone again.
  virtual Result<std::vector<Attend>> wait_for_all(Deadline deadline) = 0;
  // Whoever waits for all does so in vain.
  virtual void give_up(Error why) = 0;

  // The process here that stands for a worker there, which reads `input` and writes to this one's
  // output. Each of the two ends with the other. Exit status 255: the agent is gone. Any signal
  // kills. An Error only where this process cannot have another one.
  virtual Result<std::unique_ptr<Process>> start(std::int32_t number, std::string input) = 0;
  virtual bool is_there(std::int32_t number) = 0;

  // The job is over: all learn how, also those that come only now. Blocks until they are gone.
  virtual void conclude(ExitCode code, Deadline deadline) = 0;
};

// For `count` agents, 1 … count, that have the version and the job of `self`, rank 0; of a job that
// this one cannot read nothing is asked. `meeting`: where they learn of this one.
Result<std::unique_ptr<Agents>> create_agents(const net::Credentials& credentials,
                                              const net::Address& listen,
                                              const net::Address& meeting, std::int32_t count,
                                              Attend self, Logger log);

// An agent's side.
struct AgentSpec {
  Attend self;
  net::Address launcher;             // Agents::address
  std::vector<std::string> command;  // of a worker
};

// Blocks until the job is over, whose exit code it gives. SIGINT, SIGTERM and SIGHUP let the worker
// here leave, unless the job ends anyway, as where all get them; a second one lets it leave at
// once. An Error: kUnavailable, kTimeout: no launcher by `deadline`; kPeerLost: it is gone;
// kInvalid: it takes no such one, and why. On a thread that lives as long as the workers.
Result<ExitCode> attend(const AgentSpec& spec, const net::Credentials& credentials,
                        Deadline deadline, Processes& processes, const Logger& log);

}  // namespace muster::cluster
