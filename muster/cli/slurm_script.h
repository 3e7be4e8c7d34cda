#pragma once
// The batch script with which Slurm trains a job. Pure.

#include <cstdint>
#include <string>
#include <vector>

namespace muster::cli {

struct SlurmJob {
  std::string program;             // muster, where every node finds it
  std::vector<std::string> words;  // what follows `muster train`: the job file, --set, --quick
  std::string name;                // of the job
  std::string run_folder;
  std::int32_t nodes = 1;
  std::int32_t workers_per_node = 1;
  std::int64_t max_workers = 1;           // on all nodes, standbys included
  std::int32_t cpus_per_worker = 0;       // 0: as many as Slurm gives
  std::vector<std::string> options = {};  // of sbatch besides, as "--time=2:00:00"
};

// The first node runs the launcher and its workers, and the others `muster worker`, which finds the
// launcher's key in the run's folder: on a file system that all nodes share. Slurm announces the
// end of the time to the script (SIGUSR1); the launcher then saves and ends, and the job goes on in
// the queue. It is requeued in its own name, by which a restart finds its run.
std::string slurm_script(const SlurmJob& job);

// A job's name as a word that needs no quotes: all but letters, digits, `.`, `_` and `-` is a `-`.
std::string plain_name(const std::string& name);

}  // namespace muster::cli
