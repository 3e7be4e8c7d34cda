// muster: the command.
#include "muster/cli/program/program.h"

int main(int argc, char** argv) { return muster::cli::run_program(argc, argv); }
