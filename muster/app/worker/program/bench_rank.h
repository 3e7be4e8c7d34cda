#pragma once
// One rank of `muster bench comm`.

#include <string>

#include "muster/base/exit_code.h"
#include "muster/base/files.h"

namespace muster::app {

struct BenchRankOptions {
  std::string bench;  // to_text(CommBench)
  bool json = false;  // the first rank's answer; else a table, row by row
  Path svg;           // where it draws; empty: nowhere
};

// Meets the other ranks, measures with them; the first one tells on standard output.
ExitCode run_bench_rank(const BenchRankOptions& options, Files& files);

}  // namespace muster::app
