#pragma once
// Kernels on the calling thread alone, for as long as the object lives: libtorch keeps the number
// of intra-op threads per calling thread, and cuts its work, and so its rounding, by that number.

#include <ATen/Parallel.h>

namespace muster::optim {

class SingleThread {
 public:
  SingleThread() : before_(at::get_num_threads()) { set(1); }
  ~SingleThread() { set(before_); }
  SingleThread(const SingleThread&) = delete;
  SingleThread& operator=(const SingleThread&) = delete;

 private:
  void set(int threads) {
    if (at::get_num_threads() != threads) at::set_num_threads(threads);
  }
  int before_;
};

}  // namespace muster::optim
