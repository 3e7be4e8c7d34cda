#pragma once
// Whole messages among the processes of an MPI world, over the table of a module. MPI says of
// nothing that it has happened: it has to be asked, more and more seldom the longer nothing does.
// Everything on the loop's thread, the only one that calls MPI.

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/comm/backend/mpi/module/muster_mpi.h"
#include "muster/net/loop.h"

namespace muster::comm {

// Memory of messages, used again: what is fresh from the system costs more than the copy into it.
// Thread-safe.
class MpiMemory {
 public:
  class Piece {
   public:
    Piece() = default;
    std::span<std::byte> bytes() const noexcept { return {memory_.get(), size_}; }

   private:
    friend class MpiMemory;
    std::unique_ptr<std::byte[]> memory_;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
  };

  Piece take(std::size_t bytes);
  void give_back(Piece piece);

 private:
  std::mutex mutex_;
  std::vector<Piece> free_;  // guarded by mutex_, as below
  std::size_t free_bytes_ = 0;
};

class MpiMessages {
 public:
  struct Receiver {
    // Messages of one process come in the order in which it sent them.
    std::function<void(int from, MpiMemory::Piece message)> on_message;
    std::function<void(const Error& why)> on_failure;  // MPI itself fails: nothing comes any more
  };
  // `mpi` has begun, on the loop's thread.
  MpiMessages(net::Loop& loop, MusterMpi& mpi, Receiver receiver);
  ~MpiMessages();  // the loop has stopped, or this is its thread

  MpiMemory& memory() noexcept { return memory_; }
  // `left`: the process there has it, or it is on its way there and the memory free.
  void send(int to, MpiMemory::Piece message, std::function<void(const Status&)> left);
  // Runs `then` once all has left that was sent so far and later; asks for nothing afterwards.
  void finish(std::function<void()> then);

 private:
  struct Sending {
    MpiMemory::Piece message;
    std::uint64_t request = 0;
    std::function<void(const Status&)> left;
  };
  struct Coming {
    MpiMemory::Piece message;
    std::uint64_t request = 0;
    bool complete = false;
  };

  void turn();
  void rest(Duration idle);
  bool look_for_left();
  bool look_for_begun();
  bool look_for_come();
  bool well(const char* told, const char* what);  // or everything ends

  net::Loop& loop_;
  MusterMpi& mpi_;
  const Receiver receiver_;
  MpiMemory memory_;
  std::deque<Sending> sending_;
  std::vector<std::deque<Coming>> coming_;  // by process
  std::size_t under_way_ = 0;               // in coming_
  TimePoint moved_;                         // when something last happened
  net::Registration timer_;
  bool sleeps_ = false;  // until timer_
  bool over_ = false;
  std::function<void()> on_finished_;
};

}  // namespace muster::comm
