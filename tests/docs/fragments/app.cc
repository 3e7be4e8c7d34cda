// What stands around the block of docs/app.md: page.py puts it in as block.inc.
#include <muster/app.h>
#include <torch/nn/modules/linear.h>

void add(muster::App& app) {
#include "block.inc"
}
