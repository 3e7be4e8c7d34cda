#include "muster/cli/submit_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string_view>
#include <system_error>

#include "muster/base/lowered.h"
#include "muster/base/random.h"
#include "muster/base/shared_page.h"
#include "muster/base/shell_words.h"
#include "muster/cli/application.h"
#include "muster/cli/image_reference.h"
#include "muster/cli/job_arguments.h"
#include "muster/cli/json_line.h"
#include "muster/cli/kubernetes_manifest.h"
#include "muster/cli/machine.h"
#include "muster/cli/slurm_script.h"
#include "muster/job/path_fields.h"

namespace muster::cli {
namespace {

constexpr std::chrono::minutes kSubmitLimit{1};
constexpr std::string_view kJobSet = "jobset";  // of --kind
constexpr std::string_view kTrainJob = "trainjob";

struct SubmitArguments {
  JobArguments job;
  std::int32_t nodes = 1;
  std::optional<std::int32_t> workers_per_node;
  std::int32_t cpus_per_worker = 0;
  bool dry_run = false;
};

struct KubernetesArguments {
  SubmitArguments submit;
  std::string image, name, name_space;
  std::string claim = "muster-runs";
  std::string kind{kJobSet};
};

struct SlurmArguments {
  SubmitArguments submit;
  std::string time, partition, account;
  std::vector<std::string> options;
};

// As it will be trained: workers of other nodes have to find room in it, and a strategy for them.
job::LoadOptions options_of(const SubmitArguments& arguments, std::string scheduler,
                            const Context& context) {
  job::LoadOptions options = load_options(arguments.job, context);
  options.started_by = std::move(scheduler);
  if (arguments.workers_per_node)
    options.flags.push_back(
        {"--workers-per-node", "workers.count", std::to_string(*arguments.workers_per_node)});
  if (arguments.nodes == 1) return options;
  const std::string nodes = std::to_string(arguments.nodes);
  options.flags.push_back({"--nodes", "workers.listen", nodes,
                           [](const job::JobSpec&) { return std::string("node:0"); }});
  options.flags.push_back(
      {"--nodes", "workers.max_workers", nodes, [count = arguments.nodes](const job::JobSpec& job) {
         return std::to_string(count * job.workers.count + job.workers.standbys);
       }});
  return options;
}

// It is read where and when the job begins.
Status check_stays(const std::string& path) {
  if (!path.starts_with("/dev/") && !path.starts_with("/proc/")) return ok();
  return fail(
      ErrorCode::kInvalid,
      fmt::format("[submit] {} is gone when the job begins, and the job is read again then; "
                  "write it to a file that every node sees",
                  path));
}

// "data.path (text.txt)", of those that say only where to go from some folder.
std::vector<std::string> relative_paths(job::JobSpec job) {
  std::vector<std::string> told;
  for (const job::PathField& field : job::path_fields()) {
    const std::string& path = field.of(job);
    if (!field.is_scratch && !path.empty() && Path(path).is_relative())
      told.push_back(fmt::format("{} ({})", field.name, path));
  }
  return told;
}

// What sbatch would read as something else: it ends options at white space and quotes.
Status check_word(std::string_view flag, const std::string& word) {
  if (word.empty() || shell_quoted(word) == word) return ok();
  return fail(ErrorCode::kInvalid,
              fmt::format("[submit] {}: expected one word as sbatch takes it, of letters, digits "
                          "and `_-+=./:,@%`, found `{}`",
                          flag, word));
}

Status check_option(const std::string& option) {
  const bool one_line =
      std::ranges::none_of(option, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (option.starts_with("--") && one_line) return ok();
  return fail(ErrorCode::kInvalid,
              fmt::format("[submit] --sbatch: expected an option of sbatch on one line, as in "
                          "`--sbatch=--mem=32G`, found `{}`",
                          option));
}

Result<std::vector<std::string>> sbatch_options(const SlurmArguments& arguments) {
  std::vector<std::string> options;
  for (const auto& [flag, word] :
       {std::pair("--time", &arguments.time), std::pair("--partition", &arguments.partition),
        std::pair("--account", &arguments.account)}) {
    MUSTER_TRY(check_word(flag, *word));
    if (!word->empty()) options.push_back(fmt::format("{}={}", flag, *word));
  }
  for (const std::string& option : arguments.options) {
    MUSTER_TRY(check_option(option));
    options.push_back(option);
  }
  return options;
}

// Where sbatch has the script begin: the last that is said counts, with it and by it.
Path folder_on_nodes(const SlurmArguments& arguments, const Context& context) {
  constexpr std::string_view kFolder = "--chdir";
  Path folder = context.machine.folder();
  for (const std::string& option : arguments.options)
    if (option.starts_with(kFolder) && option.size() > kFolder.size() + 1)
      folder = option.substr(kFolder.size() + 1);
  return folder;
}

// People mean the files that they see here; whether the nodes do too is the cluster's affair.
void tell_paths_on_nodes(const SlurmArguments& arguments, const job::JobSpec& job,
                         Context& context) {
  const auto paths = relative_paths(job);
  if (paths.empty()) return;
  note(context, fmt::format("[submit] every node looks in {} for {}; it has to be a folder that "
                            "all of them see, or the paths whole",
                            folder_on_nodes(arguments, context).string(), fmt::join(paths, ", ")));
}

std::vector<std::string> words_of(const JobArguments& job) {
  std::vector<std::string> words = {job.path};
  if (job.quick) words.emplace_back("--quick");
  for (const std::string& set : job.sets) words.insert(words.end(), {"--set", set});
  return words;
}

Result<std::string> script_of(const SlurmArguments& arguments, const job::JobSpec& job,
                              const Context& context) {
  MUSTER_TRY(check_stays(arguments.submit.job.path));
  MUSTER_ASSIGN(auto options, sbatch_options(arguments));
  return slurm_script({.program = context.absolute(context.program).string(),
                       .words = words_of(arguments.submit.job),
                       .name = job.name,
                       .run_folder = job.run_folder,
                       .nodes = arguments.submit.nodes,
                       .workers_per_node = static_cast<std::int32_t>(job.workers.count),
                       .max_workers = job.workers.max_workers,
                       .cpus_per_worker = arguments.submit.cpus_per_worker,
                       .options = std::move(options)});
}

// On the PATH; kUnavailable where it is not.
Result<std::string> find_program(const std::string& name, const std::string& cure,
                                 const Context& context) {
  for (const Path& folder : context.program_folders()) {
    const Path found = folder / name;
    if (!folder.empty() && context.files.exists(found)) return found.string();
  }
  return fail(ErrorCode::kUnavailable, fmt::format("[submit] there is no {} on the PATH of {}; {}",
                                                   name, context.machine.host(), cure));
}

// What the program says of `text`, which it reads as a file; nothing is left of that.
Result<std::string> hand_to(const std::vector<std::string>& program, const std::string& text,
                            Context& context) {
  MUSTER_ASSIGN(const auto file, SharedPage::create(text.size()));
  std::ranges::copy(std::as_bytes(std::span(text)), file->bytes().begin());
  // Errors as well: they are the answer.
  std::vector<std::string> command = {"/bin/sh", "-c", "exec \"$@\" 2>&1", "sh"};
  command.insert(command.end(), program.begin(), program.end());
  command.push_back(file->path());
  auto said = context.machine.output_of(command, kSubmitLimit);
  if (said) return said;
  return fail(ErrorCode::kUnavailable,
              fmt::format("[submit] {} refuses: {}", program.front(), said.error().message));
}

Status tell_answer(const std::string& text, Context& context) {
  const std::string said = text.substr(0, text.find_last_not_of('\n') + 1);
  const bool json = context.log == LogFormat::kJson;
  context.out << (json ? json_line({{"submitted", said}}) : said + "\n");
  return ok();
}

Status submit_script(const std::string& script, Context& context) {
  MUSTER_ASSIGN(const auto sbatch,
                find_program("sbatch",
                             "submit from a host of the cluster, or take the script there: "
                             "`muster submit slurm --dry-run` prints it",
                             context));
  MUSTER_ASSIGN(const auto said, hand_to({sbatch}, script, context));
  return tell_answer(said, context);
}

ExitCode submit_slurm(const SlurmArguments& arguments, Context& context) {
  const SubmitArguments& submit = arguments.submit;
  const auto job =
      load_job_or_report(submit.job.path, options_of(submit, "Slurm", context), context);
  if (!job) return job.error();
  const auto script = script_of(arguments, job->spec, context);
  if (!script) return report(context, script.error());
  tell_paths_on_nodes(arguments, job->spec, context);
  if (!submit.dry_run) return conclude(context, submit_script(*script, context));
  context.out << *script;
  return ExitCode::kDone;
}

// Pods do not have the variables of whoever submits.
std::vector<std::string> all_words_of(const JobArguments& arguments, const job::Job& job) {
  std::vector<std::string> words;
  if (arguments.quick) words.emplace_back("--quick");
  for (const auto& [field, origin] : job.origins)
    if (origin.kind == job::Origin::Kind::kEnvironment)
      words.insert(words.end(),
                   {"--set", field + "=" + job.fields->find(field)->print(job.spec).text});
  for (const std::string& set : arguments.sets) words.insert(words.end(), {"--set", set});
  return words;
}

// A run of its own, which a pod that comes in another's place finds again.
Result<std::string> name_for(const KubernetesArguments& arguments, const job::JobSpec& job) {
  if (arguments.name.empty())
    return fmt::format("{}-{:06x}", kubernetes_name(job.name), system_entropy().next() & 0xFFFFFF);
  if (is_kubernetes_name(arguments.name)) return arguments.name;
  return fail(ErrorCode::kInvalid,
              fmt::format("[submit] --name: expected at most 40 small letters, digits and `-`, "
                          "a letter first, found `{}`",
                          arguments.name));
}

Status check_label(std::string_view flag, const std::string& name) {
  if (name.empty() || is_kubernetes_name(name)) return ok();
  return fail(
      ErrorCode::kInvalid,
      fmt::format("[submit] {}: expected small letters, digits and `-`, found `{}`", flag, name));
}

Status check_image(const std::string& image) {
  if (is_image_reference(image)) return ok();
  const std::string small = lowered(image);
  return fail(ErrorCode::kInvalid,
              fmt::format("[submit] --image: expected an image's name, with the registry before it "
                          "and the tag behind it, as in registry.example:5000/team/muster:1, found "
                          "`{}`{}",
                          image,
                          is_image_reference(small)
                              ? fmt::format("; names have small letters only: `{}`", small)
                              : ""));
}

// What lies here is not in a pod.
void tell_paths_in_pods(const KubernetesArguments& arguments, job::Job job, Context& context) {
  if (job.origins.at("run_folder").kind != job::Origin::Kind::kDefault)
    note(context, fmt::format("[submit] run_folder ({}) does not count in pods: runs are kept in "
                              "the volume of the claim {} (--claim), at /runs",
                              job.spec.run_folder, arguments.claim));
  job.spec.run_folder.clear();
  const auto paths = relative_paths(job.spec);
  if (paths.empty()) return;
  warn(context, fmt::format("[submit] pods look for {} in the working folder of the image "
                            "(WORKDIR), not in {}; where the image has it elsewhere, write the "
                            "path in it whole, as in --set data.path=/data/text.txt",
                            fmt::join(paths, ", "), context.machine.folder().string()));
}

Result<std::string> manifest_of(const KubernetesArguments& arguments, const job::Job& job) {
  const SubmitArguments& submit = arguments.submit;
  MUSTER_TRY(check_image(arguments.image));
  MUSTER_TRY(check_label("--namespace", arguments.name_space));
  MUSTER_TRY(check_label("--claim", arguments.claim));
  MUSTER_ASSIGN(auto name, name_for(arguments, job.spec));
  const job::WorkersSpec& workers = job.spec.workers;
  return kubernetes_manifest(
      {.kind = arguments.kind == kTrainJob ? KubernetesKind::kTrainJob : KubernetesKind::kJobSet,
       .name = std::move(name),
       .name_space = arguments.name_space,
       .image = arguments.image,
       .claim = arguments.claim,
       .job = job.text,
       .words = all_words_of(submit.job, job),
       .workers = static_cast<std::int32_t>(workers.count),
       .others = (submit.nodes - 1) * workers.count,
       .max_workers = workers.max_workers,
       .cpus_per_worker = submit.cpus_per_worker});
}

Status submit_manifest(const std::string& manifest, Context& context) {
  MUSTER_ASSIGN(const auto kubectl,
                find_program("kubectl",
                             "install it, or take the manifest to where it is: `muster submit k8s "
                             "--dry-run` prints it",
                             context));
  MUSTER_ASSIGN(const auto said, hand_to({kubectl, "apply", "-f"}, manifest, context));
  return tell_answer(said, context);
}

ExitCode submit_kubernetes(const KubernetesArguments& arguments, Context& context) {
  const SubmitArguments& submit = arguments.submit;
  const auto job =
      load_job_or_report(submit.job.path, options_of(submit, "Kubernetes", context), context);
  if (!job) return job.error();
  const auto manifest = manifest_of(arguments, *job);
  if (!manifest) return report(context, manifest.error());
  tell_paths_in_pods(arguments, *job, context);
  if (!submit.dry_run) return conclude(context, submit_manifest(*manifest, context));
  context.out << *manifest;
  return ExitCode::kDone;
}

void add_submit_options(CLI::App& command, SubmitArguments& arguments) {
  add_job_arguments(command, arguments.job);
  command.add_option("--nodes,-N", arguments.nodes, "Hosts; the first one launches the job")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str()
      ->type_name("N");
  command
      .add_option("--workers-per-node", arguments.workers_per_node,
                  "Training processes on each; by default workers.count of the job")
      ->check(CLI::Range(1, 65536))
      ->type_name("N");
  command
      .add_option(
          "--cpus-per-worker", arguments.cpus_per_worker,
          "Processors, and so lanes, of each worker; by default as the scheduler gives them")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  command.add_flag("--dry-run", arguments.dry_run, "Print what would be submitted");
}

void add_slurm(CLI::App& parent, Context& context) {
  CLI::App& command = add_command(
      parent, "slurm", "Submit a job to Slurm (sbatch)",
      {"muster submit slurm jobs/gpt.yaml --nodes 4 --workers-per-node 2 --time 12:00:00",
       "muster submit slurm jobs/gpt.yaml --nodes 4 --sbatch=--mem=32G --dry-run > gpt.sbatch"});
  const auto arguments = std::make_shared<SlurmArguments>();
  add_submit_options(command, arguments->submit);
  const auto add = [&command](const char* names, std::string& into, const char* help) {
    command.add_option(names, into, help)->type_name("");
  };
  add("--time,-t", arguments->time, "Limit of the job's time, as sbatch takes it");
  add("--partition,-p", arguments->partition, "Partition of the cluster");
  add("--account,-A", arguments->account, "Account that is charged");
  command.add_option("--sbatch", arguments->options, "Another option of sbatch; may be repeated")
      ->type_name("OPTION")
      ->allow_extra_args(false);
  command.callback([arguments, &context] {
    context.action = [arguments, &context] { return submit_slurm(*arguments, context); };
  });
}

void add_kubernetes(CLI::App& parent, Context& context) {
  CLI::App& command = add_command(
      parent, "k8s", "Submit a job to Kubernetes (a JobSet, or a TrainJob of Kubeflow)",
      {"muster submit k8s jobs/gpt.yaml --image registry/muster:1 --nodes 4 --cpus-per-worker 8",
       "muster submit k8s jobs/gpt.yaml --image registry/muster:1 --kind trainjob",
       "muster submit k8s jobs/gpt.yaml --image registry/muster:1 --dry-run > gpt.yaml"});
  const auto arguments = std::make_shared<KubernetesArguments>();
  add_submit_options(command, arguments->submit);
  command.add_option("--image", arguments->image, "Container image with muster and the job's data")
      ->required()
      ->type_name("");
  command.add_option("--kind", arguments->kind, "A JobSet, or a TrainJob of Kubeflow Trainer")
      ->check([](const std::string& word) {
        if (word == kJobSet || word == kTrainJob) return std::string();
        return fmt::format("expected {} or {}, found `{}`", kJobSet, kTrainJob, word);
      })
      ->capture_default_str()
      ->type_name("jobset|trainjob");
  command
      .add_option("--name", arguments->name,
                  "Of the JobSet and the run; by default the job's, with a number of its own")
      ->type_name("");
  command.add_option("--namespace", arguments->name_space, "By default kubectl's")->type_name("");
  command
      .add_option("--claim", arguments->claim,
                  "Claim of the volume for runs, which all pods write to (ReadWriteMany)")
      ->capture_default_str()
      ->type_name("");
  command.callback([arguments, &context] {
    context.action = [arguments, &context] { return submit_kubernetes(*arguments, context); };
  });
}

}  // namespace

void add_submit_command(CLI::App& app, Context& context) {
  CLI::App& command =
      add_command(app, "submit", "Hand a job to a scheduler, for as many hosts as it shall have",
                  {"muster submit slurm jobs/gpt.yaml --nodes 4 --workers-per-node 2",
                   "muster submit slurm jobs/gpt.yaml --nodes 4 --dry-run"});
  command.require_subcommand(1);
  add_slurm(command, context);
  add_kubernetes(command, context);
}

}  // namespace muster::cli
