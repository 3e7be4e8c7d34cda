// The list of commands. A new one is one line here and one file beside it.
#include "muster/cli/application.h"
#include "muster/cli/bench_command.h"
#include "muster/cli/checkpoint_command.h"
#include "muster/cli/compare_command.h"
#include "muster/cli/completion_command.h"
#include "muster/cli/credentials_command.h"
#include "muster/cli/data_command.h"
#include "muster/cli/debug_command.h"
#include "muster/cli/doctor_command.h"
#include "muster/cli/help_command.h"
#include "muster/cli/init_command.h"
#include "muster/cli/launch_command.h"
#include "muster/cli/logs_command.h"
#include "muster/cli/page_command.h"
#include "muster/cli/plan_command.h"
#include "muster/cli/report_command.h"
#include "muster/cli/runs_command.h"
#include "muster/cli/status_command.h"
#include "muster/cli/stop_command.h"
#include "muster/cli/submit_command.h"
#include "muster/cli/top_command.h"
#include "muster/cli/train_command.h"
#include "muster/cli/validate_command.h"
#include "muster/cli/worker_command.h"

namespace muster::cli {

void add_commands(CLI::App& app, Context& context) {
  add_train_command(app, context);
  add_worker_command(app, context);
  add_launch_command(app, context);
  add_credentials_command(app, context);
  add_submit_command(app, context);
  add_init_command(app, context);
  add_validate_command(app, context);
  add_compare_command(app, context);
  add_plan_command(app, context);
  add_bench_command(app, context);
  add_checkpoint_command(app, context);
  add_data_command(app, context);
  add_runs_command(app, context);
  add_status_command(app, context);
  add_top_command(app, context);
  add_logs_command(app, context);
  add_stop_command(app, context);
  add_resume_command(app, context);
  add_debug_command(app, context);
  add_report_command(app, context);
  add_page_command(app, context);
  add_doctor_command(app, context);
  add_help_command(app, context);
  add_completion_command(app, context);
}

}  // namespace muster::cli
