#pragma once
// A device whose memory the program itself cannot touch: addresses of its tensors are such that any
// read or write ends the process, as with memory of a GPU. What trains there takes nothing for
// memory of the host. Every operation is libtorch's own for the processor, on copies, so that
// results have the same bits as without the device. libtorch knows it as PrivateUse1.

#include <c10/core/Device.h>

namespace muster::models {

c10::Device foreign_device();

}  // namespace muster::models
