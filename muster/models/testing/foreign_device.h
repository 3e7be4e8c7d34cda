#pragma once
// A device whose memory the program itself cannot touch: addresses of its tensors are such that any
// read or write ends the process, as with memory of a GPU. What trains there takes nothing for
// memory of the host. Every operation is libtorch's own for the processor, on copies, so that
// results have the same bits as without the device. libtorch knows it as PrivateUse1, and has one
// thread for all backward passes on a device: ranks that meet in these need one each.

#include <c10/core/Device.h>

namespace muster::models {

c10::Device foreign_device(c10::DeviceIndex index = 0);  // below 32

}  // namespace muster::models
