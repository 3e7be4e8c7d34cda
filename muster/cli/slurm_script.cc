#include "muster/cli/slurm_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "muster/base/shell_words.h"

namespace muster::cli {
namespace {

// What it takes to save and leave, with much to spare.
constexpr int kSecondsToLeave = 120;

std::string plural(std::int64_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string sbatch_directives(const SlurmJob& job) {
  std::vector<std::string> options = {"--job-name=" + plain_name(job.name),
                                      fmt::format("--nodes={}", job.nodes),
                                      fmt::format("--ntasks-per-node={}", job.workers_per_node)};
  if (job.cpus_per_worker > 0)
    options.push_back(fmt::format("--cpus-per-task={}", job.cpus_per_worker));
  options.push_back(fmt::format("--signal=B:USR1@{}", kSecondsToLeave));
  options.insert(options.end(), {"--requeue", "--open-mode=append"});
  // The training outlives a node.
  if (job.nodes > 1) options.emplace_back("--no-kill");
  options.insert(options.end(), job.options.begin(), job.options.end());
  std::string text;
  for (const std::string& option : options) text += "#SBATCH " + option + "\n";
  return text;
}

// A name of its own: a restart goes on with this run, and no other job's.
std::string run_names(const SlurmJob& job) {
  return fmt::format(R"(muster={}
name={}-$SLURM_JOB_ID
runs={}
)",
                     shell_quoted(job.program), plain_name(job.name),
                     shell_quoted(job.run_folder)) +
         R"(
is_saved() {
  local manifests=("$runs/$name"/*/checkpoints/*/manifest.json)
  [[ -e ${manifests[0]} ]]
}

)";
}

std::string train_words(const SlurmJob& job) {
  std::string words;
  for (const std::string& word : job.words) words += " " + shell_quoted(word);
  std::string text = fmt::format("train=(\"$muster\" train{} --workers {} --set \"name=$name\"",
                                 words, job.workers_per_node);
  if (job.cpus_per_worker > 0) text += fmt::format(" --set training.lanes={}", job.cpus_per_worker);
  if (job.nodes > 1)
    text += fmt::format(" \\\n  --set \"workers.listen=$address:0\" --set workers.max_workers={}",
                        job.max_workers);
  return text + ")\n" + R"(if ((${SLURM_RESTART_COUNT:-0} > 0)) && is_saved; then
  train+=(--resume)
fi
)";
}

// Slurm's own word for where the other nodes find this one.
constexpr std::string_view kAddress =
    R"(# Where the others find this node, which is the first one.
address=$(scontrol --oneliner show node "$SLURMD_NODENAME" | sed -n 's/.* NodeAddr=\([^ ]*\).*/\1/p')
address=${address:-$(hostname)}

)";

std::string other_workers(const SlurmJob& job) {
  const std::int64_t nodes = job.nodes - 1;
  const std::string cpus =
      job.cpus_per_worker > 0 ? fmt::format(" --cpus-per-task={}", job.cpus_per_worker) : "";
  return fmt::format(R"(# The workers of the other nodes. One that dies takes nobody along.
srun --nodes={} --relative=1 --ntasks={} --ntasks-per-node={}{} --no-kill --kill-on-bad-exit=0 --label \
  "$muster" worker --credentials "$key" --join-timeout "10 min" &
others=$!

)",
                     nodes, nodes * job.workers_per_node, job.workers_per_node, cpus);
}

constexpr std::string_view kKey =
    R"(# What others need to join. One of a launcher that was killed would mislead them.
key=$runs/$name/latest/join.key
rm -f "$key"

)";

constexpr std::string_view kLauncher = R"("${train[@]}" &
launcher=$!
# SIGUSR1, ahead of the end of the time, comes to this script alone. SIGTERM, of a job that is
# cancelled or preempted, comes to every process: here it only must not end the script, for a
# second one would have the launcher leave without saving.
trap 'kill -USR1 "$launcher" 2> /dev/null' USR1
trap : TERM

)";

constexpr std::string_view kWait = R"(# A signal ends `wait`, and not what it waits for.
while kill -0 "$launcher" 2> /dev/null; do
  wait "$launcher"
done
wait "$launcher"
code=$?

)";

constexpr std::string_view kOthersEnd =
    R"(# They end with the job; one that was never let in would look for it for longer.
for ((second = 0; second < 10; ++second)); do
  kill -0 "$others" 2> /dev/null || break
  sleep 1
done
kill "$others" 2> /dev/null
wait "$others"

)";

// 138 is 128 + SIGUSR1.
constexpr std::string_view kEnd =
    R"(# The time was up, and a checkpoint is there: on with it, in the queue.
if ((code == 138)) && is_saved; then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
)";

}  // namespace

std::string plain_name(const std::string& name) {
  std::string plain = name;
  std::ranges::replace_if(
      plain,
      [](unsigned char c) { return std::isalnum(c) == 0 && c != '.' && c != '_' && c != '-'; },
      '-');
  return plain;
}

std::string slurm_script(const SlurmJob& job) {
  const bool several = job.nodes > 1;
  std::string text = fmt::format("#!/bin/bash\n# muster submit slurm: {} of {}.\n",
                                 plural(job.nodes, "node"), plural(job.workers_per_node, "worker"));
  text += sbatch_directives(job) + "\n" + run_names(job);
  if (several) text += kAddress;
  text += train_words(job) + "\n";
  if (several) text += kKey;
  text += kLauncher;
  if (several) text += other_workers(job);
  text += kWait;
  if (several) text += kOthersEnd;
  return text + std::string(kEnd);
}

}  // namespace muster::cli
