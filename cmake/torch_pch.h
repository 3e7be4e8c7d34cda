// Precompiled for every file of the layers that use libtorch: types.h costs 15 s a file without it.
// Not torch.h: what its modules, optimizers and data loaders leave to be instantiated costs every
// file another 5 s, precompiled or not.
#pragma once
#include <torch/types.h>
