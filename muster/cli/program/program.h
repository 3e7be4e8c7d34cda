#pragma once
// main() of a program with muster's command line. Everything that it touches is handed to it here.

#include "muster/base/result.h"
#include "muster/job/fields.h"

namespace muster::cli {

struct ProgramOptions {
  job::FieldsPtr fields = job::muster_fields();
  bool is_worker = false;  // it starts itself as its workers; else muster-worker, beside it
  Status usable = ok();    // an error is told, and nothing else done
};

// The exit code.
int run_program(int argc, char** argv, const ProgramOptions& options = {});

}  // namespace muster::cli
