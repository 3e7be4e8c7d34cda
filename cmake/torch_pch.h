// Precompiled for every file of the layers that use libtorch: torch.h costs 25 s a file without it.
#pragma once
#include <torch/torch.h>
