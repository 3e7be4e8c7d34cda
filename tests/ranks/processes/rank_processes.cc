#include "tests/ranks/processes/rank_processes.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <thread>

#if defined(MUSTER_SANITIZED) && !defined(MUSTER_SANITIZED_THREAD)
#include <sanitizer/lsan_interface.h>
#endif

namespace muster::comm {
namespace {

// A board that all ranks see: what each said in the latest rounds. Who writes in a round has read
// what all wrote in the one before, and so knows that nobody reads those before that any more.
struct Board {
  static constexpr std::size_t kRounds = 2;
  static constexpr std::size_t kRanks = 16;
  struct Note {
    std::atomic<std::uint32_t> written;  // rounds, this one included
    std::uint32_t length;
    std::array<char, 512> text;
  };
  std::array<std::array<Note, kRanks>, kRounds> notes;
};

Board* create_board() {
  void* memory =
      ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : new (memory) Board;
}

Exchange exchange_over(Board& board, Group group) {
  // Copies go on where the original is.
  return [&board, group, rounds = std::make_shared<std::uint32_t>(0)](
             const std::string& mine, Deadline deadline) -> Result<std::vector<std::string>> {
    const std::uint32_t round = ++*rounds;
    auto& notes = board.notes.at(round % Board::kRounds);
    auto& note = notes.at(static_cast<std::size_t>(to_int(group.rank)));
    note.length = static_cast<std::uint32_t>(mine.copy(note.text.data(), note.text.size()));
    note.written = round;
    std::vector<std::string> all;
    for (std::int32_t rank = 0; rank < group.size; ++rank) {
      auto& other = notes.at(static_cast<std::size_t>(rank));
      while (other.written != round) {
        if (deadline.passed(system_clock()))
          return fail(ErrorCode::kTimeout, fmt::format("rank {} did not come", rank), Rank{rank});
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
      all.emplace_back(other.text.data(), other.length);
    }
    return all;
  };
}

// A process that ends by _exit does not look for leaks: 97 where there are some.
int looked_for_leaks(int status) {
#if defined(MUSTER_SANITIZED) && !defined(MUSTER_SANITIZED_THREAD)
  if (status == 0 && __lsan_do_recoverable_leak_check() != 0) return 97;
#endif
  return status;
}

}  // namespace

RankProcesses::RankProcesses(std::int32_t size, const RankBody& body) {
  Board* board = create_board();
  const pid_t parent = ::getpid();
  for (std::int32_t rank = 0; rank < size; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      const Group group{Rank{rank}, size, Generation{1}};
      ::_exit(looked_for_leaks(body(group, exchange_over(*board, group))));
    }
    pids_.push_back(child);
  }
}

RankProcesses::~RankProcesses() {
  for (std::size_t rank = 0; rank < pids_.size(); ++rank) {
    if (pids_[rank] < 0) continue;
    ::kill(pids_[rank], SIGKILL);
    wait(static_cast<std::int32_t>(rank));
  }
}

void RankProcesses::signal(std::int32_t rank, int number) { ::kill(pid(rank), number); }

int RankProcesses::wait(std::int32_t rank) {
  int status = 0;
  ::waitpid(pid(rank), &status, 0);
  pids_[static_cast<std::size_t>(rank)] = -1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace muster::comm
