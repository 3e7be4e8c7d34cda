// muster-worker: one training process.
#include "muster/app/worker/program/worker_program.h"

int main(int argc, char** argv) { return muster::app::run_worker_program(argc, argv); }
