#include "muster/cli/plan_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "muster/base/units.h"
#include "muster/cli/application.h"
#include "muster/cli/job_arguments.h"
#include "muster/cli/json_line.h"
#include "muster/cli/pipeline_answers.h"
#include "muster/cli/plan_job.h"
#include "muster/cli/run_options.h"
#include "muster/plan/timeline.h"

namespace muster::cli {
namespace {

using layout::PipelineKind;

// As words: what they mean is found out when the command runs, with an error that says so.
struct PipelineArguments {
  plan::PipelineQuestion question;
  std::vector<std::string> schedules = {"1f1b"};
  std::string forward = "1 ms";
  std::string backward = "2 ms";
  std::string backward_weight;
  std::string latency = "0 s";
  std::string message = "0 B";
  std::string bandwidth;
  std::string activation = "1 MiB";
  std::string state = "0 B";
  std::string svg;
  int width = 0;
  bool json = false;
};

Error in_option(std::string_view option, Error error) {
  return fail(error.code, fmt::format("{}: {}", option, error.message));
}

// "12 ms", or a plain number of milliseconds.
Status read_time(std::string_view option, const std::string& text, Duration& into) {
  auto time = parse_duration(text);
  if (!time) {
    if (auto plain = parse_duration(text + " ms")) time = std::move(plain);
  }
  if (!time) return in_option(option, time.error());
  into = *time;
  return ok();
}

Status read_bytes(std::string_view option, const std::string& text, std::uint64_t& into) {
  const auto bytes = parse_bytes(text);
  if (!bytes) return in_option(option, bytes.error());
  into = *bytes;
  return ok();
}

Status read_some_bytes(std::string_view option, const std::string& text, std::string_view of,
                       std::uint64_t& into) {
  MUSTER_TRY(read_bytes(option, text, into));
  if (into > 0) return ok();
  return fail(ErrorCode::kInvalid, fmt::format("{}: expected more than 0 bytes{}", option, of));
}

Status read_backward(const PipelineArguments& arguments, layout::ChunkCost& stage) {
  Duration whole{};
  MUSTER_TRY(read_time("--backward", arguments.backward, whole));
  stage.backward_weight = whole / 2;
  if (!arguments.backward_weight.empty())
    MUSTER_TRY(read_time("--backward-weight", arguments.backward_weight, stage.backward_weight));
  stage.backward_input = whole - stage.backward_weight;
  if (stage.backward_input >= Duration::zero()) return ok();
  return fail(ErrorCode::kInvalid,
              fmt::format("--backward-weight: {} is more than the whole backward, {}",
                          format_duration(stage.backward_weight), format_duration(whole)));
}

Status read_link(const PipelineArguments& arguments, plan::PipelineQuestion& question) {
  MUSTER_TRY(read_time("--latency", arguments.latency, question.link.latency));
  MUSTER_TRY(read_bytes("--message", arguments.message, question.stage.output_bytes));
  if (arguments.bandwidth.empty()) return ok();
  std::uint64_t bytes = 0;
  MUSTER_TRY(read_some_bytes("--bandwidth", arguments.bandwidth, " a second", bytes));
  question.link.bytes_per_second = static_cast<double>(bytes);
  return ok();
}

Result<plan::PipelineQuestion> read_question(const PipelineArguments& arguments) {
  plan::PipelineQuestion question = arguments.question;
  MUSTER_TRY(read_time("--forward", arguments.forward, question.stage.forward));
  MUSTER_TRY(read_backward(arguments, question.stage));
  MUSTER_TRY(read_link(arguments, question));
  MUSTER_TRY(read_bytes("--activation", arguments.activation, question.stage_memory.activations));
  MUSTER_TRY(read_bytes("--state", arguments.state, question.stage_memory.state));
  question.stage_memory.weight_inputs = question.stage_memory.activations;
  return question;
}

Result<std::vector<PipelineKind>> read_kinds(const PipelineArguments& arguments) {
  std::vector<PipelineKind> kinds;
  for (const std::string& word : arguments.schedules) {
    const auto kind = layout::pipeline_kind_from_string(word);
    if (!kind) return in_option("--schedule", kind.error());
    kinds.push_back(*kind);
  }
  return kinds;
}

// A partition by hand counts for the schedules that have so many chunks, and for those asked for.
PipelineAnswers answer_all(const plan::PipelineQuestion& question,
                           const std::vector<PipelineKind>& wanted) {
  PipelineAnswers answers{question, {}};
  for (const PipelineKind kind : layout::kPipelineKinds) {
    plan::PipelineQuestion one = question;
    const bool drawn = std::ranges::find(wanted, kind) != wanted.end();
    const auto chunks = plan::chunk_count(question, kind);
    if (!drawn && chunks && *chunks != std::ssize(one.block_counts)) one.block_counts.clear();
    answers.by_kind.emplace_back(kind, plan::answer(one, kind));
  }
  return answers;
}

Result<std::vector<const plan::PipelineAnswer*>> pick(const PipelineAnswers& answers,
                                                      const std::vector<PipelineKind>& wanted) {
  std::vector<const plan::PipelineAnswer*> picked;
  for (const PipelineKind kind : wanted) {
    const auto found =
        std::ranges::find(answers.by_kind, kind, [](const auto& one) { return one.first; });
    if (!found->second) return found->second.error();
    picked.push_back(&*found->second);
  }
  return picked;
}

Status write_svg(const PipelineArguments& arguments,
                 const std::vector<const plan::PipelineAnswer*>& answers, Context& context) {
  if (arguments.svg.empty()) return ok();
  std::vector<plan::PipelineSimulation> simulations;
  simulations.reserve(answers.size());
  for (const auto* answer : answers) simulations.push_back(answer->simulation);
  return write_atomically(context.files, arguments.svg, plan::timeline_svg(simulations));
}

void show(const PipelineArguments& arguments, const PipelineAnswers& answers,
          const std::vector<const plan::PipelineAnswer*>& drawn, Context& context) {
  context.out << comparison_text(answers, context.width_of_out());
  const plan::TextStyle style{arguments.width > 0 ? arguments.width : context.out_width,
                              context.colour(context.out_is_terminal)};
  for (const auto* answer : drawn) {
    context.out << fmt::format("\n{}\n{}{}",
                               context.fitted_to_out(plan::title_of(answer->simulation)),
                               context.fitted_to_out(partition_text(*answer)),
                               plan::timeline_text(answer->simulation, style));
  }
  if (!arguments.svg.empty()) context.out << fmt::format("\nwritten: {}\n", arguments.svg);
}

Status plan_pipeline(const PipelineArguments& arguments, Context& context) {
  MUSTER_ASSIGN(const auto question, read_question(arguments));
  MUSTER_ASSIGN(const auto wanted, read_kinds(arguments));
  const PipelineAnswers answers = answer_all(question, wanted);
  MUSTER_ASSIGN(const auto drawn, pick(answers, wanted));
  MUSTER_TRY(write_svg(arguments, drawn, context));
  if (context.answers_json(arguments.json))
    context.out << json_line(comparison_json(answers));
  else
    show(arguments, answers, drawn, context);
  return ok();
}

void add_options(CLI::App& command, PipelineArguments& arguments) {
  auto& question = arguments.question;
  const auto option = [&](const std::string& name, auto& value, const std::string& text) {
    return command.add_option(name, value, text)->type_name("");
  };
  option("-p,--stages", question.stages, "Stages")->capture_default_str();
  option("-m,--micro-batches", question.micro_batches, "Micro-batches of a step")
      ->capture_default_str();
  option("--schedule", arguments.schedules,
         "What to draw: gpipe, 1f1b, interleaved, zb_h1, zb_v; several with commas")
      ->delimiter(',')
      ->capture_default_str();
  option("--chunks", question.chunks_per_stage, "Chunks a stage, for interleaved [2]");
  option("--forward", arguments.forward,
         "Time of a micro-batch on a stage, forward; a plain number is in ms")
      ->capture_default_str();
  option("--backward", arguments.backward, "The same, backward")->capture_default_str();
  option("--backward-weight", arguments.backward_weight,
         "Of this, what the gradients of the weights take [half]");
  option("--latency", arguments.latency, "Of a message between two stages")->capture_default_str();
  option("--message", arguments.message, "Bytes of a message")->capture_default_str();
  option("--bandwidth", arguments.bandwidth, "Of a link, bytes a second, as in 10GB [no limit]");
  option("--activation", arguments.activation, "Bytes that a stage holds for a micro-batch")
      ->capture_default_str();
  option("--state", arguments.state, "Bytes of a stage's weights, gradients and optimizer")
      ->capture_default_str();
  option("--memory-limit", question.memory_limit,
         "Activations of chunks that a stage may hold, for zb_v [as 1f1b]");
  option("--blocks", question.blocks,
         "What each block of the model costs, in any unit, with commas [all equal]")
      ->delimiter(',');
  option("--partition", question.block_counts, "How many blocks each chunk has [by cost]")
      ->delimiter(',');
  option("--svg", arguments.svg, "Write the picture to this file");
  option("--width", arguments.width, "Columns of the picture [the terminal's]");
  command.add_flag("--json", arguments.json, "Answer in JSON");
}

struct PlanArguments {
  JobArguments job;
  std::string workers;
  std::string memory;
  std::string latency;
  std::string bandwidth;
  std::string profile;
  std::string svg;
  bool all = false;
  bool json = false;
};

Result<PlanRequest> read_request(const PlanArguments& arguments, const Context& context) {
  PlanRequest request{.job = arguments.job.path, .options = load_options(arguments.job, context)};
  add_workers(arguments.workers, context, request.options);
  request.profile = arguments.profile;
  if (!arguments.memory.empty())
    MUSTER_TRY(
        read_some_bytes("--memory", arguments.memory, " a worker", request.memory.emplace()));
  if (!arguments.latency.empty())
    MUSTER_TRY(read_time("--latency", arguments.latency, request.latency.emplace()));
  if (arguments.bandwidth.empty()) return request;
  std::uint64_t bytes = 0;
  MUSTER_TRY(read_some_bytes("--bandwidth", arguments.bandwidth, " a second", bytes));
  request.bytes_per_second = static_cast<double>(bytes);
  return request;
}

// The best pipeline, as it would run; the winner where it is one.
const plan::PipelineSimulation* pipeline_of(const JobPlan& plan) {
  const plan::RankedWay* best = plan.best();
  return best && best->estimate->pipeline ? &*best->estimate->pipeline : nullptr;
}

Status write_svg(const PlanArguments& arguments, const JobPlan& plan, Context& context) {
  if (arguments.svg.empty()) return ok();
  const plan::PipelineSimulation* pipeline = pipeline_of(plan);
  if (!pipeline)
    return fail(ErrorCode::kInvalid,
                "--svg draws a pipeline, and the best way is none; `muster plan pipeline` draws "
                "any");
  return write_atomically(context.files, arguments.svg, plan::timeline_svg({pipeline, 1}));
}

void show(const PlanArguments& arguments, const JobPlan& plan, Context& context) {
  context.out << plan_text(plan, arguments.all, context.width_of_out());
  if (const plan::PipelineSimulation* pipeline = pipeline_of(plan)) {
    const plan::TextStyle style{context.out_width, context.colour(context.out_is_terminal)};
    context.out << fmt::format("\n{}\n{}", context.fitted_to_out(plan::title_of(*pipeline)),
                               plan::timeline_text(*pipeline, style));
  }
  if (!arguments.svg.empty()) context.out << fmt::format("\nwritten: {}\n", arguments.svg);
}

ExitCode plan_ways(const PlanArguments& arguments, Context& context) {
  if (arguments.job.path.empty())
    return report(context, fail(ErrorCode::kInvalid,
                                "JOB is required: the job file; or `muster plan pipeline`"));
  const auto request = read_request(arguments, context);
  if (!request) return report(context, request.error());
  const auto job = load_job_or_report(request->job, request->options, context);
  if (!job) return job.error();
  const auto plan = plan_job(*request, *job, context);
  if (!plan) return report(context, plan.error());
  if (const Status drawn = write_svg(arguments, *plan, context); !drawn)
    return report(context, drawn.error());
  if (context.answers_json(arguments.json))
    context.out << plan_json(*plan) << "\n";
  else
    show(arguments, *plan, context);
  return plan->best() ? ExitCode::kDone : ExitCode::kEnvironment;
}

void add_job_options(CLI::App& command, PlanArguments& arguments) {
  add_job_arguments(command, arguments.job);
  command.get_option("JOB")->required(false);  // there is `muster plan pipeline` as well
  add_workers_option(command, arguments.workers);
  const auto option = [&](const std::string& name, std::string& value, const std::string& text) {
    command.add_option(name, value, text)->type_name("");
  };
  option("--memory", arguments.memory,
         "Bytes that a worker may take, as in 4GiB [its share of what is free]");
  option("--latency", arguments.latency,
         "Of a message between workers; a plain number is in ms [as measured here]");
  option("--bandwidth", arguments.bandwidth, "Between workers, bytes a second [as measured here]");
  option("--profile", arguments.profile,
         "File of what was measured of the model: read, or written where there is none");
  option("--svg", arguments.svg, "Write the picture of the best way's pipeline to this file");
  command.add_flag("--all", arguments.all, "Show every combination, also those with other bits");
  command.add_flag("--json", arguments.json, "Answer in JSON");
}

}  // namespace

void add_plan_command(CLI::App& app, Context& context) {
  CLI::App& command = add_command(
      app, "plan", "Rank the ways to train a job, by what they would cost on this machine",
      {"muster plan jobs/gpt.yaml --workers 2 --memory 1GiB", "muster plan pipeline --stages 4"});
  command.require_subcommand(0, 1);
  const auto job = std::make_shared<PlanArguments>();
  add_job_options(command, *job);
  command.callback([job, &command, &context] {
    if (!command.get_subcommands().empty()) return;
    context.action = [job, &context] { return plan_ways(*job, context); };
  });
  CLI::App& pipeline = add_command(
      command, "pipeline", "Compare pipeline schedules and draw them",
      {"muster plan pipeline --stages 4 --micro-batches 8 --schedule 1f1b",
       "muster plan pipeline --forward 12ms --backward 25ms --schedule 1f1b,zb_v --svg p.svg"});
  const auto arguments = std::make_shared<PipelineArguments>();
  add_options(pipeline, *arguments);
  pipeline.callback([arguments, &context] {
    context.action = [arguments, &context] {
      return conclude(context, plan_pipeline(*arguments, context));
    };
  });
}

}  // namespace muster::cli
