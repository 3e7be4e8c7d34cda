#pragma once
// What a command is given: the seams to the world, where it writes, how it should look. Commands
// keep no state anywhere else. One thread.

#include <cstddef>
#include <functional>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/exit_code.h"
#include "muster/base/files.h"
#include "muster/base/log.h"
#include "muster/job/fields.h"

namespace muster::cli {

class Machine;

struct Context {
  Files& files;
  Clock& clock;
  Machine& machine;
  std::ostream& out;
  std::ostream& err;
  std::map<std::string, std::string> environment;
  Path program;  // muster itself, or a program of a user's (muster::App)
  bool out_is_terminal = false;
  bool err_is_terminal = false;

  LogFormat log = LogFormat::kText;  // --log
  std::function<ExitCode()> action =
      {};               // what the command line asks for; a command's callback sets it
  int out_width = 80;   // columns
  int out_height = 24;  // lines
  int err_width = 80;   // columns
  // What a program of a user's has besides: fields of its own, and itself as its workers.
  job::FieldsPtr fields = job::muster_fields();
  bool is_worker = false;  // else muster-worker lies beside `program`

  bool answers_json(bool asked) const { return asked || log == LogFormat::kJson; }  // --json, --log
  std::optional<std::string> variable(const std::string& name) const;  // of `environment`
  Path absolute(const Path& path) const;      // from where this process was started
  bool colour(bool terminal) const;           // NO_COLOR, CI and TERM=dumb are honoured
  bool live() const;                          // whether one redrawn line can be shown on stderr
  std::vector<Path> program_folders() const;  // of the PATH
  bool redraws(bool terminal) const;          // whether what is there can be drawn again
  // How wide lines of theirs may be; 0: as wide as need be, since no terminal shows them.
  std::size_t width_of_out() const;
  std::size_t width_of_err() const;
  std::string fitted_to_out(std::string_view text) const;  // its lines no wider: fitted()
  // Text for `err`, its lines no wider, but for excerpts of files, under which marks stand.
  std::string fitted_to_err(std::string_view text) const;
  Logger logger() const;  // of lines on `err`
};

// Tells the error on `err`, as text or as one JSON object, and gives the exit code that belongs to
// it.
ExitCode report(Context& context, const Error& error);
ExitCode report(Context& context, const Error& error, ExitCode code);
// kDone, or what report() gives.
ExitCode conclude(Context& context, const Status& status);

// A line on `err` of what is no error, as text or as one JSON object.
void warn(Context& context, const std::string& message);
void note(Context& context, const std::string& message);  // the same of what may well be meant

// The program of training processes; worker_program() is kUnavailable where it cannot be started.
Path worker_path(const Context& context);
Result<Path> worker_program(const Context& context);

// muster's module for the MPI that has started this process: app/engines/mpi.h.
Result<Path> mpi_module(const Context& context);
Result<Path> nccl_module(const Context& context);  // for NCCL: app/engines/nccl.h

// The process's variables.
std::map<std::string, std::string> variables_of(char** environment);

// Whether a terminal that this process writes to is one that its launcher has made, to read what it
// writes: Open MPI's mpirun and PRRTE give each rank one, wherever they write themselves.
bool is_terminal_of_launcher(const std::map<std::string, std::string>& environment);

}  // namespace muster::cli
